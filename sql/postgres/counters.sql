-- What PostgreSQL counts for the whole server (rows, blocks, files, write-ahead log, sizes) is told to every role in
-- every database. Run in each database of the server (dpsql init): closed to all but monitors.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

DO $block$
DECLARE
    counter REGPROCEDURE;
BEGIN
    FOR counter IN
        SELECT oid FROM pg_catalog.pg_proc
        WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace
          AND (proname LIKE 'pg\_stat\_get\_%' OR proname LIKE 'pg\_stat\_reset%'
               OR proname LIKE 'pg\_current\_wal%' OR proname LIKE 'pg\_last\_wal%'
               OR proname IN ('pg_relation_size', 'pg_table_size', 'pg_total_relation_size', 'pg_indexes_size',
                              'pg_database_size', 'pg_tablespace_size', 'pg_control_checkpoint'))
          AND proname NOT IN ('pg_stat_get_activity', 'pg_stat_get_backend_idset', 'pg_stat_get_backend_pid',
                              'pg_stat_get_backend_dbid', 'pg_stat_get_backend_userid', 'pg_stat_get_backend_activity',
                              'pg_stat_get_backend_activity_start', 'pg_stat_get_backend_xact_start',
                              'pg_stat_get_backend_start', 'pg_stat_get_backend_client_addr',
                              'pg_stat_get_backend_client_port', 'pg_stat_get_backend_wait_event',
                              'pg_stat_get_backend_wait_event_type')
          AND pg_catalog.has_function_privilege('public', oid, 'EXECUTE')
    LOOP
        EXECUTE pg_catalog.format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', counter);
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO pg_monitor', counter);
    END LOOP;
END
$block$;
