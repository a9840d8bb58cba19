-- The ledger from format 2 to 3 (dpsql/ledger/upgrade.py runs this under the ledger's lock, in one transaction).
-- No table changes. The number tells older code to leave the database alone: it would train on the units of a hold-out, and
-- would not know the cap of analysts who have none of their own (analyst '*').
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

UPDATE dpsql.format SET number = 3 WHERE part = 'ledger';
