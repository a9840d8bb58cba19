-- Sizes that were bought: noisy numbers of rows, safe to publish. Later advice takes the least noisy one for free.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'size', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'size');

CREATE TABLE IF NOT EXISTS dpsql.size (
    entry_id   BIGINT  NOT NULL PRIMARY KEY,  -- the ledger entry
    dataset    VARCHAR NOT NULL,
    noisy_rows BIGINT  NOT NULL
);
