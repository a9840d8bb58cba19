-- The ledger from format 1 to 2 (dpsql/ledger/upgrade.py runs this under the ledger's lock, in one transaction).
-- An amount is in billionths of epsilon, or of rho where the kind is 'approximate': the column no longer says epsilon.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

ALTER TABLE dpsql.entry RENAME COLUMN nano_epsilon TO amount;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);

CREATE OR REPLACE VIEW dpsql.ledger AS
SELECT
    charge.entry_id,
    charge.recorded_at,
    charge.who,
    charge.dataset,
    charge.table_name,
    charge.scope,
    charge.method,
    charge.kind,
    CASE WHEN charge.kind <> 'approximate'
        THEN CAST(charge.amount AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) END AS epsilon,
    CASE WHEN charge.kind = 'approximate'
        THEN CAST(charge.amount AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) END AS rho,
    CASE ending.event WHEN 'release' THEN 'released' WHEN 'lost' THEN 'lost' ELSE 'reserved' END AS state,
    charge.neighbours,
    charge.unit,
    charge.request_id,
    ending.digest,
    charge.hash
FROM dpsql.entry AS charge
LEFT JOIN dpsql.entry AS ending
    ON ending.entry_id = charge.entry_id AND ending.event IN ('release', 'lost')
WHERE charge.event = 'reserve';
