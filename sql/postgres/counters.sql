-- What PostgreSQL counts for the whole server (rows, blocks, files, write-ahead log, sizes, numbers given to objects) is
-- told to every role in every database. Run in each database of the server (dpsql init): closed to all but monitors.
-- pg_logical_emit_message returns the place in the log, and a new large object gets the next number, of which every
-- stored wide value has taken one.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- Not RESET: that would take on the role that the owner of the database has set for it.
SET LOCAL ROLE NONE;
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
                              'pg_database_size', 'pg_tablespace_size', 'pg_control_checkpoint',
                              'pg_logical_emit_message', 'pg_get_replication_slots', 'pg_get_wal_summarizer_state',
                              'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import'))
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
