-- The files that charged runs have read, and as which table: moved or renamed, they keep that table's budget.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'part', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'part');

CREATE TABLE IF NOT EXISTS dpsql.part (
    part      VARCHAR NOT NULL,   -- the file as it was then: its device, its number there, when it was last written
    read_as   VARCHAR NOT NULL    -- the identity of the table that it was a part of
);
