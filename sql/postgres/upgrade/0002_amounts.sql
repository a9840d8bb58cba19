-- What format 1 left in a PostgreSQL database beside the ledger's tables.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- Whoever may read the ledger's name may read the format numbers.
DO $block$
DECLARE
    statement TEXT;
BEGIN
    FOR statement IN
        SELECT pg_catalog.format('GRANT SELECT ON dpsql.format TO %s',
                                 CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::pg_catalog.regrole::TEXT END)
        FROM pg_catalog.pg_class AS place, pg_catalog.aclexplode(place.relacl) AS given
        WHERE place.oid = 'dpsql.chain'::pg_catalog.regclass AND given.privilege_type = 'SELECT'
    LOOP
        EXECUTE statement;
    END LOOP;
END
$block$;

-- Functions that lend the owner's rights to their caller, and the connection that they used: dpsql init --plpython now
-- makes functions that lend nothing.
DO $block$
DECLARE
    lending REGPROCEDURE;
BEGIN
    FOR lending IN
        SELECT oid FROM pg_catalog.pg_proc
        WHERE pronamespace = 'dpsql'::pg_catalog.regnamespace AND prosecdef AND proname IN ('train', 'evaluate', 'advise')
    LOOP
        EXECUTE pg_catalog.format('DROP FUNCTION %s', lending);
    END LOOP;
END
$block$;
DROP TABLE IF EXISTS dpsql.loopback;
