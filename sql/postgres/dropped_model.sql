-- The models that were dropped: their numbers are given to no other, since views and macros know a model by its number.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'dropped_model', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'dropped_model');

CREATE TABLE IF NOT EXISTS dpsql.dropped_model (
    model_id   INTEGER NOT NULL PRIMARY KEY,
    name       VARCHAR NOT NULL,                -- what it was called; another model may have the name since
    digest     VARCHAR NOT NULL,                -- SHA-256 of structure and weights
    entry_id   BIGINT,                          -- the ledger entry that paid for it, and stays; NULL for an imported model
    dropped_at VARCHAR NOT NULL,                -- UTC, ISO 8601
    dropped_by VARCHAR NOT NULL
);

-- Whoever reads models reads these too, though they were created after dpsql init said who does.
DO $block$
DECLARE
    reader TEXT;
BEGIN
    FOR reader IN
        SELECT pg_get_userbyid(given.grantee)
        FROM pg_catalog.pg_class, LATERAL aclexplode(relacl) AS given
        WHERE pg_class.oid = to_regclass('dpsql.model') AND given.privilege_type = 'SELECT'
            AND given.grantee NOT IN (0, relowner)
    LOOP
        EXECUTE format('GRANT SELECT ON dpsql.dropped_model TO %I', reader);
    END LOOP;
END
$block$;
