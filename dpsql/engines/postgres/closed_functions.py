"""Functions of PostgreSQL that every role may call and that tell something from outside the caller's own tables.

Those known to tell of rows are closed by `sql/postgres/counters.sql`. A newer server brings new ones: whatever is open
and on no list here is named by `dpsql doctor`, and fails a test.
"""

from __future__ import annotations

from dpsql.engines.postgres.cursor import Connection, fetch_from_postgres

#: Volatile functions of servers 14 to 17 that may stay open. Each was looked at: they tell of the caller's own session,
#: ask for a right of their own, or tell of no row.
_LOOKED_AT = """
    amvalidate bernoulli brin_desummarize_range brin_summarize_new_values brin_summarize_range clock_timestamp
    current_query currtid2 currval cursor_to_xml cursor_to_xmlschema dsnowball_init dsnowball_lexize gen_random_uuid
    gin_clean_pending_list lastval lo_close lo_get lo_lseek lo_lseek64 lo_open lo_put lo_tell lo_tell64 lo_truncate
    lo_truncate64 lo_unlink loread lowrite nextval pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock
    pg_advisory_unlock_all pg_advisory_unlock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared
    pg_blocking_pids pg_cancel_backend pg_collation_actual_version pg_control_init pg_control_recovery
    pg_control_system pg_copy_logical_replication_slot pg_copy_physical_replication_slot
    pg_create_logical_replication_slot pg_create_physical_replication_slot pg_database_collation_actual_version
    pg_drop_replication_slot pg_export_snapshot pg_extension_config_dump pg_get_multixact_members
    pg_get_wal_replay_pause_state pg_get_wal_resource_managers pg_import_system_collations pg_is_in_recovery
    pg_is_wal_replay_paused pg_isolation_test_session_is_blocked pg_jit_available pg_last_committed_xact
    pg_last_xact_replay_timestamp pg_lock_status pg_logical_slot_get_binary_changes pg_logical_slot_get_changes
    pg_logical_slot_peek_binary_changes pg_logical_slot_peek_changes pg_nextoid pg_notification_queue_usage pg_notify
    pg_partition_ancestors pg_partition_tree pg_prepared_xact pg_read_file_old pg_replication_slot_advance
    pg_rotate_logfile_old pg_safe_snapshot_blocking_pids pg_sequence_last_value pg_sleep pg_sleep_for pg_sleep_until
    pg_stat_clear_snapshot pg_stat_force_next_flush pg_stat_get_activity pg_stat_get_backend_idset
    pg_stop_making_pinned_objects pg_terminate_backend pg_try_advisory_lock pg_try_advisory_lock_shared
    pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared pg_xact_commit_timestamp
    pg_xact_commit_timestamp_origin pg_xact_status query_to_xml query_to_xml_and_xmlschema query_to_xmlschema random
    random_normal set_config setseed setval system timeofday ts_rewrite ts_stat txid_status
"""
KNOWN = frozenset(_LOOKED_AT.split())
_OPEN = """
SELECT DISTINCT proname FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v' AND prokind IN ('f', 'p')
  AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'language_handler'::regtype,
                         'index_am_handler'::regtype, 'table_am_handler'::regtype, 'tsm_handler'::regtype,
                         'fdw_handler'::regtype)
  AND proname NOT LIKE 'binary\\_upgrade\\_%'
  AND proname NOT LIKE 'pl%\\_handler' AND proname NOT LIKE 'pl%\\_validator'
  AND has_function_privilege('public', oid, 'EXECUTE')
ORDER BY proname
"""


def unknown_functions(connection: Connection) -> list[str]:
    """Return the volatile functions of the server's own that every role may call and dpsql does not know."""
    return [name for (name,) in fetch_from_postgres(connection, _OPEN) if name not in KNOWN]
