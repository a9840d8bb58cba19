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
