-- Domains that were bought: noisy counts, safe to publish, from which bounds, lists of values and a size follow.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'domains', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'domains');

CREATE TABLE IF NOT EXISTS dpsql.domains (
    entry_id BIGINT  NOT NULL PRIMARY KEY,  -- the ledger entry
    dataset  VARCHAR NOT NULL,
    answers  VARCHAR NOT NULL               -- JSON: the noisy answers of dpsql/runs/buy_domains.py
);
