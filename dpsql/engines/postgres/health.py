"""What `dpsql doctor` and `dpsql init` look at on a PostgreSQL server. Reads the catalog and settings, no row."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg

from dpsql.engines.base import Health
from dpsql.engines.postgres.closed_functions import unknown_functions
from dpsql.engines.postgres.cursor import Connection, fetch_from_postgres
from dpsql.engines.postgres.wall import ANALYSTS, monitors

#: Seconds by which the server's clock may be away from ours.
_MOST_SECONDS = 5.0
_HEALTH = """
SELECT current_setting('server_version_num'), current_user,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
       to_regnamespace('dpsql') IS NOT NULL,
       CASE WHEN to_regclass('dpsql.entry') IS NULL THEN false
           ELSE has_table_privilege('dpsql.entry', 'INSERT') END,
       clock_timestamp(), current_setting('fsync')
"""
#: How this database tells itself from every copy that a dump, a template or another server can make of it.
PLACE = """
SELECT format('dpsql of system %s, database %s', system_identifier,
              (SELECT oid FROM pg_database WHERE datname = current_database()))
FROM pg_control_system()
"""
#: Where `dpsql init` was run, as it wrote it on the schema.
PREPARED = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'dpsql'"
#: Whether anybody but its owner was let into schema dpsql.
HAS_ANALYSTS = """
SELECT 1 FROM pg_catalog.pg_namespace AS own CROSS JOIN LATERAL pg_catalog.aclexplode(own.nspacl) AS given
WHERE own.nspname = 'dpsql' AND given.grantee NOT IN (0, own.nspowner) LIMIT 1
"""
#: Schemas that others meet (on the usual search path, or open to PUBLIC) and in which an analyst or PUBLIC may create.
OPEN_SCHEMAS = f"""
WITH analysts AS ({ANALYSTS}),
makers AS (
    SELECT n.nspname, 'PUBLIC' AS role FROM pg_namespace AS n WHERE has_schema_privilege('public', n.oid, 'CREATE')
    UNION
    SELECT n.nspname, a.rolname FROM pg_namespace AS n, analysts AS a
    WHERE (n.nspname = 'public' OR has_schema_privilege('public', n.oid, 'USAGE'))
      AND has_schema_privilege(a.oid, n.oid, 'CREATE')
      AND NOT has_schema_privilege('public', n.oid, 'CREATE')
)
SELECT nspname, string_agg(role, ', ' ORDER BY role) FROM makers
WHERE EXISTS (SELECT 1 FROM analysts) AND nspname NOT LIKE 'pg\\_t%'
GROUP BY nspname ORDER BY nspname
"""
#: Whether roles other than monitors read the server's counters in this database: of rows, of the log, of numbers.
COUNTERS_OPEN = """
SELECT bool_or(has_function_privilege('public', oid, 'EXECUTE')) FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace
  AND proname IN ('pg_stat_get_db_tuples_inserted', 'pg_logical_emit_message', 'pg_get_replication_slots', 'lo_create')
"""
#: Databases that nobody can enter at present; template0 stays as it is.
SHUT = "SELECT datname FROM pg_database WHERE NOT datallowconn AND datname <> 'template0' ORDER BY datname"
SIBLINGS = "SELECT datname FROM pg_database WHERE datallowconn AND datname <> current_database() ORDER BY datname"


def examine_server(connection: Connection) -> list[Health]:
    """Return versions, what the role may do, and how far the server's clock is from ours."""
    our_time = datetime.now(UTC)
    version, role, superuser, schema, writes, now, syncs = fetch_from_postgres(connection, _HEALTH)[0]
    away = abs((now - our_time).total_seconds())
    rights = f"connected as {role}" + (", a superuser" if superuser else "")
    return [
        Health("driver", True, f"psycopg {psycopg.__version__}"),
        Health("server", int(version) >= 140000, f"PostgreSQL {int(version) // 10000}", "14 or newer is needed"),
        Health("schema", bool(schema), "dpsql is there" if schema else "no schema dpsql", "dpsql init --db …"),
        Health("rights", not superuser, rights, "connect as the owner role for daily work"),
        Health("ledger rights", True, "may write the ledger" if writes else "may read the ledger"),
        Health("durability", syncs == "on", f"fsync is {syncs}", "turn fsync on: a charge must outlive a crash"),
        Health("clock", away < _MOST_SECONDS, f"{away:.1f} s apart", "set both clocks by the network"),
    ]


def examine_wall(connection: Connection) -> list[Health]:
    """Return what analysts could get hold of; where there are none, only that the database is a copy, if it is."""
    place = _place(connection)
    if not fetch_from_postgres(connection, HAS_ANALYSTS):
        return [] if place.well else [place]
    schemas = fetch_from_postgres(connection, OPEN_SCHEMAS)
    open_schemas = "; ".join(f'"{name}" ({roles})' for name, roles in schemas)
    counted = fetch_from_postgres(connection, "SELECT current_setting('track_counts')")[0][0] == "on"
    shown = fetch_from_postgres(connection, COUNTERS_OPEN)[0][0]
    watching = monitors(connection)
    new = unknown_functions(connection)
    return [
        place,
        Health(
            "analysts",
            not watching,
            f"they read all tables or counters: {', '.join(watching)}"
            if watching
            else "none reads all tables or counters",
            "REVOKE the built-in role in brackets FROM the analyst",
        ),
        Health(
            "functions",
            not new,
            f"open to every role, and not known to dpsql: {', '.join(new)}"
            if new
            else "none is open that dpsql does not know",
            "look up what they tell; where it is a counter, REVOKE EXECUTE ON FUNCTION … FROM PUBLIC",
        ),
        Health(
            "schemas",
            not schemas,
            f"analysts can create in {open_schemas}"
            if schemas
            else "analysts can create in no schema that others meet",
            "REVOKE CREATE ON SCHEMA … FROM …, so that nobody's session meets what they make",
        ),
        Health(
            "counters",
            not counted and not shown,
            "what is read here is counted, for every role to see" if counted or shown else "closed, and not counted",
            "dpsql init; do the work as the owner role",
        ),
    ]


def _place(connection: Connection) -> Health:
    prepared = fetch_from_postgres(connection, PREPARED)
    here = fetch_from_postgres(connection, PLACE)[0][0]
    same = not prepared or prepared[0][0] in (None, here)
    finding = "where dpsql init was run" if same else f"a copy, or restored: it was {prepared[0][0]}"
    return Health(
        "place", same, finding, "dpsql init takes the copy for a database of its own, with a budget of its own"
    )
