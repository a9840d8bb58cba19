-- PostgreSQL tells every role how many rows a table has: in pg_class, and in counters of what was read and written.
-- These are exact for small tables, and nobody's noise is on them, so dpsql init closes them to all but monitors.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

DO $block$
DECLARE
    counter REGPROCEDURE;
    shown TEXT;
BEGIN
    FOR counter IN
        SELECT oid FROM pg_catalog.pg_proc
        WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace
          AND (proname LIKE 'pg\_stat\_get\_%' OR proname LIKE 'pg\_stat\_reset%'
               OR proname IN ('pg_relation_size', 'pg_table_size', 'pg_total_relation_size', 'pg_indexes_size',
                              'pg_database_size', 'pg_tablespace_size'))
          AND proname NOT LIKE 'pg\_stat\_get\_backend\_%' AND proname <> 'pg_stat_get_activity'
    LOOP
        EXECUTE pg_catalog.format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', counter);
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO pg_monitor', counter);
    END LOOP;
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
