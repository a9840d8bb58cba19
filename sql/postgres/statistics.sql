-- PostgreSQL tells every role how many rows a table has: in pg_class, and in counters of what was read and written.
-- These are exact for small tables, and nobody's noise is on them, so dpsql init closes them to all but monitors: here
-- those of this database's tables, in counters.sql those of the whole server.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

DO $block$
DECLARE
    shown TEXT;
BEGIN
    SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ') INTO shown
    FROM pg_catalog.pg_attribute
    WHERE attrelid = 'pg_catalog.pg_class'::pg_catalog.regclass AND NOT attisdropped
      AND attname NOT IN ('reltuples', 'relpages', 'relallvisible', 'relallfrozen')
      AND (attnum > 0 OR attname IN ('tableoid', 'ctid'));
    REVOKE SELECT ON pg_catalog.pg_class FROM PUBLIC;
    EXECUTE pg_catalog.format('GRANT SELECT (%s) ON pg_catalog.pg_class TO PUBLIC', shown);
    GRANT SELECT ON pg_catalog.pg_class TO pg_monitor;
END
$block$;
