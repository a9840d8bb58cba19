-- The ledger: what each dataset allows, what was spent, and the chain of everything that happened.
--
-- Amounts are whole billionths of epsilon, so that sums are exact; where the kind is 'approximate', of rho.
-- Everything here is public bookkeeping: no counts, no rows, no values from private tables.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

-- One row per part of schema dpsql that is there: the number of its format. dpsql/ledger/formats.py knows the newest.
CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'ledger', 3 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'ledger');

-- One row: the ledger's own random name. The chain starts from it and the receipt outside the file
-- repeats it, so that one ledger cannot stand in for another. Each writer begins by raising `turn`:
-- writers queue here, and read the chain after those before them. (An UPDATE that changes nothing would
-- not do: DuckDB leaves it out, and then two writers do not meet.)
CREATE TABLE IF NOT EXISTS dpsql.chain (
    ledger_id     VARCHAR NOT NULL,
    installed_at  VARCHAR NOT NULL,           -- UTC, ISO 8601
    turn          BIGINT  NOT NULL            -- how many writers have had their turn
);

-- Append-only. One row per event, never changed afterwards: an entry's state is the last event about it.
--   register, cap      the owner's acts           reserve         a charge, before any row is read
--   release, lost      how a charge ended         anchor          the owner accepted the chain as it stands
--   limit              the owner's, too           accept          the owner accepted a dataset's unfinished runs
--   lookup             the owner looked up values   upgrade       an older ledger was brought to this format
CREATE TABLE IF NOT EXISTS dpsql.entry (
    sequence       BIGINT  NOT NULL PRIMARY KEY,   -- 1, 2, 3, ... without gaps
    event          VARCHAR NOT NULL,
    entry_id       BIGINT  NOT NULL,               -- sequence of the event that opened this entry
    request_id     VARCHAR UNIQUE,                 -- on 'reserve' alone: one request, one charge
    dataset        VARCHAR NOT NULL,
    table_name     VARCHAR NOT NULL,
    kind           VARCHAR NOT NULL,               -- what the amounts mean: 'pure', ...; kinds never mix
    scope          VARCHAR NOT NULL,               -- '' is the whole table, else 'column=value'
    method         VARCHAR NOT NULL,
    plan           VARCHAR NOT NULL,               -- canonical JSON
    neighbours     VARCHAR NOT NULL,
    unit           VARCHAR NOT NULL,
    amount         BIGINT  NOT NULL,               -- what 'reserve' charges; 0 on other events
    cap            BIGINT,                         -- what 'register' and 'cap' set; NULL is no cap
    analyst        VARCHAR NOT NULL,               -- on 'cap': whose; '' is the dataset's own
    digest         VARCHAR NOT NULL,               -- on 'release': SHA-256 of what was given out
    details        VARCHAR NOT NULL,               -- canonical JSON
    who            VARCHAR NOT NULL,
    recorded_at    VARCHAR NOT NULL,               -- UTC, ISO 8601
    previous_hash  VARCHAR NOT NULL,
    hash           VARCHAR NOT NULL,               -- SHA-256 of all before it, under labels that never change
    UNIQUE (entry_id, event)
);

-- One row per dataset and kind. A charge is decided by one guarded UPDATE of this row.
-- A row of the table belongs to one scope at most, so it loses whole + the largest scope's spending.
CREATE TABLE IF NOT EXISTS dpsql.budget (
    dataset     VARCHAR NOT NULL,
    kind        VARCHAR NOT NULL,
    table_name  VARCHAR NOT NULL,
    cap         BIGINT,                            -- NULL: no cap (public data)
    whole       BIGINT  NOT NULL,                  -- charged on the whole table
    spent       BIGINT  NOT NULL,                  -- whole + the largest of the scopes
    PRIMARY KEY (dataset, kind)
);

-- Charged on one scope alone.
CREATE TABLE IF NOT EXISTS dpsql.scope_budget (
    dataset  VARCHAR NOT NULL,
    kind     VARCHAR NOT NULL,
    scope    VARCHAR NOT NULL,
    spent    BIGINT  NOT NULL,
    PRIMARY KEY (dataset, kind, scope)
);

-- One row per analyst who was given a cap or has charged; all charges add up here, whatever their scope.
CREATE TABLE IF NOT EXISTS dpsql.analyst_budget (
    dataset  VARCHAR NOT NULL,
    kind     VARCHAR NOT NULL,
    analyst  VARCHAR NOT NULL,
    cap      BIGINT,                               -- NULL: that of '*', which is all analysts without one; else none
    spent    BIGINT  NOT NULL,
    PRIMARY KEY (dataset, kind, analyst)
);

-- For people: one line per charge, with its state and its epsilon (or rho) as an exact decimal.
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
