"""Who else has a say when a PostgreSQL table is read: whose code would run, and who could name it without a right.

Two facts of PostgreSQL make these questions necessary. The planner evaluates what belongs to a table (expressions of
indexes, constraints, partition keys, statistics) with the rights of whoever reads it. And it plans a statement, and
tells its estimates to whoever sets `debug_print_plan`, before it checks the right to read. Reads the catalog alone.
"""

from __future__ import annotations

from dpsql.engines.base import Health
from dpsql.engines.postgres.cursor import Connection, fetch_from_postgres

#: Roles that may call dpsql's functions and are not the owner's: members of whoever was let into schema dpsql.
ANALYSTS = """
    SELECT r.oid, r.rolname FROM pg_roles AS r JOIN pg_namespace AS own ON own.nspname = 'dpsql'
    WHERE NOT r.rolsuper AND NOT pg_has_role(r.oid, own.nspowner, 'MEMBER')
      AND EXISTS (SELECT 1 FROM aclexplode(own.nspacl) AS given
                  WHERE given.grantee NOT IN (0, own.nspowner) AND pg_has_role(r.oid, given.grantee, 'MEMBER'))
"""
#: A table with its parts, or a view with all that it reads, and the parents of each of them.
_READ = """
below(id) AS (
    SELECT CAST(? AS OID)
    UNION
    SELECT following.id FROM below CROSS JOIN LATERAL (
        SELECT i.inhrelid AS id FROM pg_inherits AS i WHERE i.inhparent = below.id
        UNION ALL
        SELECT d.refobjid FROM pg_rewrite AS rule JOIN pg_depend AS d
            ON d.classid = 'pg_rewrite'::regclass AND d.objid = rule.oid AND d.refclassid = 'pg_class'::regclass
        WHERE rule.ev_class = below.id
    ) AS following
),
kin(id) AS (
    SELECT id FROM below
    UNION
    SELECT i.inhparent FROM pg_inherits AS i JOIN kin ON i.inhrelid = kin.id
)
"""
#: Relations and code whose owner has neither all rights of the reader nor all rights of dpsql's owner.
#: The type of a column is left out: it matters for that column alone (`catalog.STRANGERS`).
_STRANGERS = f"""
WITH RECURSIVE
me AS (
    SELECT r.oid, r.rolname, r.rolsuper, (SELECT nspowner FROM pg_namespace WHERE nspname = 'dpsql') AS owner
    FROM pg_roles AS r WHERE r.rolname = current_user
),
{_READ},
attached(kind, id) AS (
    SELECT CAST('pg_class'::regclass AS OID), indexrelid FROM pg_index JOIN kin ON indrelid = kin.id
    UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint AS c JOIN kin ON c.conrelid = kin.id
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef AS d JOIN kin ON d.adrelid = kin.id
    UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext AS s JOIN kin ON s.stxrelid = kin.id
    UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite AS r JOIN kin ON r.ev_class = kin.id
    UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_policy AS p JOIN kin ON p.polrelid = kin.id
),
code(kind, id) AS (
    SELECT d.refclassid, d.refobjid FROM pg_depend AS d JOIN kin ON d.objid = kin.id AND d.objsubid = 0
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid <> 'pg_class'::regclass
    UNION ALL
    SELECT kind, id FROM attached
    UNION
    SELECT following.kind, following.id FROM code CROSS JOIN LATERAL (
        SELECT d.refclassid AS kind, d.refobjid AS id FROM pg_depend AS d
        WHERE d.classid = code.kind AND d.objid = code.id
          AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass,
                               'pg_opclass'::regclass, 'pg_opfamily'::regclass)
        UNION ALL
        SELECT part.kind, part.id FROM pg_type AS t LEFT JOIN pg_range AS span ON span.rngtypid = t.oid
        CROSS JOIN LATERAL (
            VALUES (CAST('pg_type'::regclass AS OID), t.typbasetype), ('pg_type'::regclass, t.typelem),
                   ('pg_type'::regclass, span.rngsubtype), ('pg_class'::regclass, t.typrelid)
        ) AS part(kind, id)
        WHERE code.kind = 'pg_type'::regclass AND t.oid = code.id AND part.id <> 0
        UNION ALL
        SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint AS c
        WHERE code.kind = 'pg_type'::regclass AND c.contypid = code.id
    ) AS following
),
owned(relation, kind, id, owner) AS (
    SELECT TRUE, CAST('pg_class'::regclass AS OID), c.oid, c.relowner FROM kin JOIN pg_class AS c ON c.oid = kin.id
    UNION ALL SELECT FALSE, code.kind, p.oid, p.proowner FROM code JOIN pg_proc AS p
        ON code.kind = 'pg_proc'::regclass AND p.oid = code.id
    UNION ALL SELECT FALSE, code.kind, o.oid, o.oprowner FROM code JOIN pg_operator AS o
        ON code.kind = 'pg_operator'::regclass AND o.oid = code.id
    UNION ALL SELECT FALSE, code.kind, t.oid, t.typowner FROM code JOIN pg_type AS t
        ON code.kind = 'pg_type'::regclass AND t.oid = code.id
    UNION ALL SELECT FALSE, code.kind, o.oid, o.opcowner FROM code JOIN pg_opclass AS o
        ON code.kind = 'pg_opclass'::regclass AND o.oid = code.id
    UNION ALL SELECT FALSE, code.kind, o.oid, o.opfowner FROM code JOIN pg_opfamily AS o
        ON code.kind = 'pg_opfamily'::regclass AND o.oid = code.id
)
SELECT owned.relation, pg_describe_object(owned.kind, owned.id, 0), pg_get_userbyid(owned.owner),
       coalesce(pg_get_userbyid(me.owner), me.rolname),
       me.rolsuper OR (me.owner IS NOT NULL AND pg_has_role(me.oid, me.owner, 'MEMBER'))
FROM owned CROSS JOIN me
WHERE NOT pg_has_role(owned.owner, me.oid, 'MEMBER')
  AND (me.owner IS NULL OR NOT pg_has_role(owned.owner, me.owner, 'MEMBER'))
ORDER BY owned.relation, 2 LIMIT 100
"""
#: What shows the rows of a private table, stands in a schema that an analyst may enter, and is not theirs to read:
#: the table, its parts and parents, what a view reads, and views, rules, policies and functions that read any of these.
_WAYS_IN = f"""
WITH RECURSIVE
analysts AS ({ANALYSTS}),
{_READ},
shown(kind, id) AS (
    SELECT CAST('pg_class'::regclass AS OID), kin.id FROM kin
    UNION
    SELECT following.kind, following.id FROM shown CROSS JOIN LATERAL (
        SELECT CAST('pg_class'::regclass AS OID) AS kind, rule.ev_class AS id FROM pg_depend AS d
            JOIN pg_rewrite AS rule ON d.classid = 'pg_rewrite'::regclass AND rule.oid = d.objid
        WHERE d.refclassid = shown.kind AND d.refobjid = shown.id
        UNION ALL
        SELECT 'pg_class'::regclass, p.polrelid FROM pg_depend AS d
            JOIN pg_policy AS p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
        WHERE d.refclassid = shown.kind AND d.refobjid = shown.id
        UNION ALL
        SELECT 'pg_proc'::regclass, d.objid FROM pg_depend AS d
        WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = shown.kind AND d.refobjid = shown.id
    ) AS following
),
things AS (
    SELECT shown.kind, shown.id, c.relnamespace AS schema, c.oid AS relation, CAST(NULL AS OID) AS routine,
           CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END AS word,
           format('%I.%I', n.nspname, c.relname) AS place
    FROM shown JOIN pg_class AS c ON shown.kind = 'pg_class'::regclass AND c.oid = shown.id
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    UNION ALL
    SELECT shown.kind, shown.id, p.pronamespace, NULL, p.oid, 'FUNCTION',
           format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
    FROM shown JOIN pg_proc AS p ON shown.kind = 'pg_proc'::regclass AND p.oid = shown.id
    JOIN pg_namespace AS n ON n.oid = p.pronamespace
),
entered AS (
    SELECT n.oid, n.nspname, a.oid AS analyst, a.rolname, has_schema_privilege('public', n.oid, 'USAGE') AS everybody
    FROM pg_namespace AS n CROSS JOIN analysts AS a
    WHERE n.oid IN (SELECT schema FROM things)
      AND EXISTS (SELECT 1 FROM pg_roles AS r WHERE pg_has_role(a.oid, r.oid, 'MEMBER')
                  AND has_schema_privilege(r.oid, n.oid, 'USAGE'))
)
SELECT DISTINCT ON (things.kind, things.id) things.word, things.place, entered.nspname, entered.rolname,
       entered.everybody, things.id = CAST(? AS OID)
FROM things JOIN entered ON entered.oid = things.schema
WHERE NOT coalesce(has_any_column_privilege(entered.analyst, things.relation, 'SELECT'), FALSE)
  AND coalesce(has_function_privilege(entered.analyst, things.routine, 'EXECUTE'), TRUE)
ORDER BY things.kind, things.id, entered.rolname
"""
#: Analysts who may read the rows themselves.
_READERS = f"""
WITH analysts AS ({ANALYSTS})
SELECT a.rolname, format('%I.%I', n.nspname, c.relname)
FROM analysts AS a, pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = CAST(? AS OID) AND EXISTS (SELECT 1 FROM pg_roles AS r WHERE pg_has_role(a.oid, r.oid, 'MEMBER')
              AND has_any_column_privilege(r.oid, c.oid, 'SELECT'))
ORDER BY a.rolname
"""
#: Built-in roles that read every table, or the counters that `dpsql init` closes.
_MONITORS = f"""
WITH analysts AS ({ANALYSTS})
SELECT a.rolname, m.rolname FROM analysts AS a JOIN pg_roles AS m
    ON m.rolname IN ('pg_read_all_data', 'pg_write_all_data', 'pg_monitor', 'pg_read_all_stats', 'pg_read_all_settings',
                     'pg_stat_scan_tables', 'pg_read_server_files', 'pg_execute_server_program', 'pg_maintain')
WHERE pg_has_role(a.oid, m.oid, 'MEMBER') ORDER BY a.rolname, m.rolname
"""


def find_strangers(connection: Connection, number: int) -> tuple[str, str, str]:
    """Return why no run relies on a table, why it is not even read for free, and the remedy; each "" where all is well.

    Whoever owns a table can put an index on it at any moment, so ownership counts even where there is no code yet. A
    reader with no more rights than others is free to read what others own: they could in psql.
    """
    strangers = fetch_from_postgres(connection, _STRANGERS, [number])
    if not strangers:
        return "", "", ""
    relation, what, role, owner, privileged = strangers[0]
    if relation:
        words = f'holds rows of role "{role}", who can have code run by whoever reads them'
        remedy = (
            f'ALTER TABLE … OWNER TO "{owner}"; or GRANT "{owner}" TO "{role}", if that role is trusted with all of it'
        )
        return words, words if privileged else "", remedy
    words = f'holds rows that cannot be read without {what}, of role "{role}", which would run with your rights'
    return words, words, f'drop what uses it, or ALTER … OWNER TO "{owner}"'


def ways_in(connection: Connection, number: int) -> list[Health]:
    """Return the names by which an analyst could have a statement on a private table planned, with what closes each."""
    return [_way_in(*row) for row in fetch_from_postgres(connection, _WAYS_IN, [number, number])]


def _way_in(word: str, place: str, schema: str, role: str, everybody: bool, itself: bool) -> Health:
    finding = (
        f"{word.lower()} {place} is in a schema that role {_quote_identifier(role)} may enter: "
        "whoever names it is told the planner's row counts, even without a right to read."
    )
    move = f"CREATE SCHEMA private; ALTER {word} {place} SET SCHEMA private"
    revoke_or_move = f'REVOKE USAGE ON SCHEMA "{schema}" FROM {_quote_identifier(role)}, or: {move}'
    return Health(place, False, finding, move if everybody else revoke_or_move)


def readers(connection: Connection, number: int) -> list[Health]:
    """Return which analysts may read the rows of a table themselves, each with what closes the way."""
    return [
        Health(
            place,
            False,
            f"role {_quote_identifier(role)} reads its rows, without dpsql.",
            f"REVOKE SELECT ON {place} FROM …",
        )
        for role, place in fetch_from_postgres(connection, _READERS, [number])
    ]


def monitors(connection: Connection) -> list[str]:
    """Return the analysts who are members of a built-in role that reads everything or the server's counters."""
    return [f"{analyst} ({role})" for analyst, role in fetch_from_postgres(connection, _MONITORS)]


def _quote_identifier(role: str) -> str:
    return '"' + role.replace('"', '""') + '"'
