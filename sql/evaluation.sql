-- What charged evaluations released: noisy counts, safe to publish. Asking again under one request id gives these.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'evaluation', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'evaluation');

CREATE TABLE IF NOT EXISTS dpsql.evaluation (
    entry_id     BIGINT  NOT NULL PRIMARY KEY,  -- the ledger entry
    model        VARCHAR NOT NULL,
    model_digest VARCHAR NOT NULL,
    table_name   VARCHAR NOT NULL,
    noisy_counts VARCHAR NOT NULL               -- JSON: the histograms of dpsql/trees/score_grid.py, one after the other
);
