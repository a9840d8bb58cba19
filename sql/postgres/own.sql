-- The owner role owns the schema of dpsql and everything in it. :owner is its name, quoted, :owner_name the same as a text.
ALTER SCHEMA dpsql OWNER TO :owner;
DO $block$
DECLARE
    statement TEXT;
BEGIN
    FOR statement IN
        SELECT format('ALTER %s %s OWNER TO %I', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass, :owner_name)
        FROM pg_class WHERE relnamespace = 'dpsql'::regnamespace AND relkind IN ('r', 'v')
        UNION ALL
        SELECT format('ALTER FUNCTION %s OWNER TO %I', oid::regprocedure, :owner_name)
        FROM pg_proc WHERE pronamespace = 'dpsql'::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$block$;
