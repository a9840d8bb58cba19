-- What people wrote on their models: words, or names with values. It says nothing of any row and nothing reads it but people.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'model_tag', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'model_tag');

CREATE TABLE IF NOT EXISTS dpsql.model_tag (
    model_id INTEGER NOT NULL,
    tag      VARCHAR NOT NULL,                  -- a word, or the name before an equals sign
    value    VARCHAR NOT NULL,                  -- what stands behind the equals sign; empty for a word
    PRIMARY KEY (model_id, tag)
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
        EXECUTE format('GRANT SELECT ON dpsql.model_tag TO %I', reader);
    END LOOP;
END
$block$;
