"""PostgreSQL's catalog: the queries that read it, and our words for its types. No row, no statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.engines.base import Column, ColumnNote, TableInfo
from dpsql.engines.postgres.cursor import Connection, fetch_from_postgres
from dpsql.engines.postgres.vocabulary import DIALECT
from dpsql.engines.postgres.wall import find_strangers
from dpsql.engines.table_names import find_entry, full_name, without_database
from dpsql.engines.view_text import as_view

#: The schema whose tables people call by their names alone.
HOME = "public"
TABLES = """
SELECT n.nspname, c.relname, c.relkind, c.oid
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'dpsql')
  AND n.nspname NOT LIKE 'pg\\_t%'
"""
#: A table, all that inherits from it (a query on the table reads their rows too), and all that it inherits from. The
#: server's and the database's numbers stand before a table's, as a copy has the same numbers for its tables.
KIN = """
WITH RECURSIVE below AS (
    SELECT CAST(? AS OID) AS oid
    UNION
    SELECT i.inhrelid FROM pg_inherits AS i JOIN below ON i.inhparent = below.oid
), above AS (
    SELECT CAST(? AS OID) AS oid
    UNION
    SELECT i.inhparent FROM pg_inherits AS i JOIN above ON i.inhrelid = above.oid
), kin AS (
    SELECT oid, TRUE AS part FROM below
    UNION ALL
    SELECT oid, FALSE FROM above
)
SELECT format('%s.%s.%s', server.system_identifier, d.oid, kin.oid), kin.part, c.relkind
FROM pg_control_system() AS server, kin
JOIN pg_class AS c ON c.oid = kin.oid
JOIN pg_database AS d ON d.datname = current_database()
"""
#: What a view's query needs beyond relations and ENUMs: functions, operators, other types that users made. A field of
#: a composite type can be a domain, whose CHECK is a function.
MADE_BY_USERS = """
SELECT 1
FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
LEFT JOIN pg_type AS t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid
WHERE r.ev_class = ? AND d.refclassid NOT IN ('pg_class'::regclass, 'pg_collation'::regclass)
  AND (t.oid IS NULL OR t.typtype <> 'e')
LIMIT 1
"""
#: A column of a domain has the type that the domain is made of. Two texts of different bytes can be equal only under a
#: collation that is not deterministic. A stored generated column ('s') is read as it was stored; a virtual one ('v',
#: from version 18 on) is worked out when it is read. An ENUM's owner can say how it becomes text, by a cast. CHAR
#: without a length (bpchar) keeps blanks at the end and does not compare them; CHAR(n) has as many as it must, always.
COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN t.typtype = 'd' AND t.typbasetype = 'bpchar'::regtype AND t.typtypmod = -1 THEN 'bpchar'
            WHEN a.atttypid = 'bpchar'::regtype AND a.atttypmod = -1 THEN 'bpchar'
            WHEN t.typtype = 'd' THEN format_type(t.typbasetype, NULL) ELSE format_type(a.atttypid, NULL) END,
       t.typtype,
       CASE WHEN t.typtype = 'e'
           THEN (SELECT array_agg(CAST(e.enumlabel AS TEXT) ORDER BY e.enumsortorder)
                 FROM pg_enum AS e WHERE e.enumtypid = t.oid) END,
       CASE WHEN NOT o.collisdeterministic THEN CAST(o.collname AS TEXT) ELSE '' END,
       a.attgenerated = 'v',
       t.typtype = 'e' AND EXISTS (SELECT 1 FROM pg_cast AS k WHERE k.castsource = t.oid),
       CASE WHEN current_setting('server_encoding') = 'UTF8' THEN '' ELSE current_setting('server_encoding') END
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_collation AS o ON o.oid = a.attcollation
WHERE a.attrelid = ? AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
CHECKS = "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conrelid = ? AND contype = 'c'"
#: Comments and keys of one column each, by column.
NOTES = """
SELECT a.attname, coalesce(col_description(a.attrelid, a.attnum), ''),
       EXISTS (SELECT 1 FROM pg_constraint AS k
               WHERE k.conrelid = a.attrelid AND k.contype IN ('p', 'u') AND k.conkey = ARRAY[a.attnum]),
       n.nspname, r.relname, b.attname
FROM pg_attribute AS a
LEFT JOIN pg_constraint AS f
    ON f.conrelid = a.attrelid AND f.contype = 'f' AND f.conkey = ARRAY[a.attnum] AND f.conparentid = 0
LEFT JOIN pg_class AS r ON r.oid = f.confrelid LEFT JOIN pg_namespace AS n ON n.oid = r.relnamespace
LEFT JOIN pg_attribute AS b ON b.attrelid = f.confrelid AND b.attnum = f.confkey[1]
WHERE a.attrelid = ? AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
#: Unique indexes that hold for all rows a query on the table reads, at every moment: not partial, not over expressions,
#: not deferred, valid, not of a table that others inherit from (a partitioned one has its index on every part), and
#: under collations by which equal texts have equal bytes.
KEYS = """
SELECT array_agg(CAST(a.attname AS TEXT))
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0 : i.indnkeyatts - 1])
WHERE i.indrelid = ? AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND (c.relkind = 'p' OR NOT EXISTS (SELECT 1 FROM pg_inherits AS h WHERE h.inhparent = c.oid))
  AND NOT EXISTS (SELECT 1 FROM pg_collation AS o WHERE o.oid = ANY (i.indcollation) AND NOT o.collisdeterministic)
GROUP BY i.indexrelid
"""
VIEW = "SELECT pg_get_viewdef(CAST(? AS OID))"
#: Columns whose type, or a part of it, belongs to a role other than a superuser, the one that asks and the owner of
#: schema dpsql: whoever owns a type can give it casts, which run as whoever reads the column.
STRANGERS = """
WITH RECURSIVE part AS (
    SELECT attname AS name, atttypid AS id FROM pg_attribute WHERE attrelid = ? AND attnum > 0 AND NOT attisdropped
    UNION
    SELECT part.name, inner_part.id FROM part JOIN pg_type AS whole ON whole.oid = part.id
    LEFT JOIN pg_range AS span ON span.rngtypid = whole.oid
    CROSS JOIN LATERAL (VALUES (whole.typbasetype), (whole.typelem), (span.rngsubtype)) AS inner_part(id)
    WHERE inner_part.id <> 0
)
SELECT part.name, min(r.rolname) FROM part
JOIN pg_type AS made ON made.oid = part.id JOIN pg_roles AS r ON r.oid = made.typowner
WHERE NOT r.rolsuper AND r.rolname <> current_user
  AND NOT EXISTS (SELECT 1 FROM pg_namespace AS own WHERE own.nspname = 'dpsql' AND own.nspowner = r.oid)
GROUP BY part.name
"""
#: Why reading a table can fail on a row: policies would be evaluated on each row that this role reads, or rows of a
#: part of it come from another server or a file, where they are read by other rules.
UNFIT = """
WITH RECURSIVE part AS (
  SELECT inhrelid AS number FROM pg_inherits WHERE inhparent = ?
  UNION
  SELECT i.inhrelid FROM pg_inherits AS i JOIN part ON i.inhparent = part.number
)
SELECT CASE
    WHEN row_security_active(CAST(? AS OID))
    THEN 'has row-level security that binds this role: its policies would be evaluated on each row, and can fail on one'
    WHEN EXISTS (SELECT 1 FROM part JOIN pg_class AS c ON c.oid = part.number WHERE c.relkind = 'f')
    THEN 'has a foreign table among its parts, whose rows can fail to be read'
    WHEN current_setting('server_encoding') = 'SQL_ASCII'
    THEN 'is in a database of encoding SQL_ASCII, whose texts can be no texts and then fail to be read'
    ELSE ''
  END
"""

#: What mends each reason of `UNFIT`, by its first words.
_REMEDIES = {
    "has row-level": "connect as the table's owner, or as a role with BYPASSRLS",
    "has a foreign": "detach the foreign table, or copy its rows into a plain one",
    "is in a database": "restore a dump of it into a database of encoding UTF8",
}
_FAMILIES = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision", "numeric"), "real"),
    **dict.fromkeys(("text", "character varying", "character"), "text"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("timestamp without time zone", "timestamp with time zone"), "timestamp"),
    "time without time zone": "other",
    **dict.fromkeys(("uuid", "bytea", "inet", "cidr", "macaddr", "macaddr8", "oid"), "other"),
}


def catalog_column(
    name: str,
    kind: str,
    base: str,
    typtype: str,
    values: Sequence[str] | None,
    collation: str,
    computed: bool,
    cast: bool,
    encoding: str = "",
) -> Column:
    """Return a column as a row of `COLUMNS` describes it; `cast` says that an ENUM has a cast that its owner made."""
    family = "opaque" if cast else postgres_family(base, typtype)
    enum_values = tuple(values or ())
    return Column(name, kind, family, enum_values, base.startswith("numeric"), collation, computed, encoding=encoding)


def postgres_family(base: str, typtype: str) -> str:
    """Return our word for a type by its name, or by the name of the type that a domain is made of; an ENUM is text.

    Types not listed are opaque. Each listed one is PostgreSQL's own and has a hash that agrees with its equality, which
    is that of bytes, or of numbers (1.0 is 1.00, 0.0 is -0.0); a user's type, or one of an extension (citext), can call
    anything equal, and an interval of 1 month equals one of 30 days.

    >>> kinds = (("integer", "b"), ("numeric", "d"), ("mood", "e"), ("uuid", "b"), ("json", "b"))
    >>> [postgres_family(base, kind) for base, kind in kinds]
    ['integer', 'real', 'text', 'other', 'opaque']
    """
    return "text" if typtype == "e" else _FAMILIES.get(base, "opaque")


def describe(connection: Connection, name: str, schema: str | None) -> TableInfo | None:
    """Return what the catalog says of a table or view, or None where there is none."""
    entries = {(row[0], row[1]): row for row in fetch_from_postgres(connection, TABLES)}
    entry = find_entry(entries, name, schema=schema, home=HOME)
    if entry is None and schema is None:
        ((database,),) = fetch_from_postgres(connection, "SELECT CAST(current_database() AS TEXT)")
        rest = without_database(name, database)
        entry = None if rest is None else find_entry(entries, rest, schema=None, home=HOME)
    if entry is None:
        return None
    place, (schema, table, kind, number) = entry
    kin = fetch_from_postgres(connection, KIN, [number, number])
    if not kin:
        return None
    columns = fetch_from_postgres(connection, COLUMNS, [number])
    checks = fetch_from_postgres(connection, CHECKS, [number])
    strangers = dict(fetch_from_postgres(connection, STRANGERS, [number]))
    ((unfit,),) = fetch_from_postgres(connection, UNFIT, [number, number])
    foreign, unsafe, remedy = find_strangers(connection, number)
    definition = _definition(
        connection, kind, number, foreign=any(part and kin_kind == "f" for _, part, kin_kind in kin)
    )
    below = frozenset(kin_identity for kin_identity, part, _ in kin if part)
    above = frozenset(kin_identity for kin_identity, part, _ in kin if not part)
    (identity,) = below & above
    return TableInfo(
        name=full_name(place, HOME),
        schema=schema,
        table=table,
        columns=tuple(_opaque_if_strange(catalog_column(*row), strangers) for row in columns),
        kind="view" if definition else "table",
        definition=definition,
        checks=tuple(text for (text,) in checks),
        identity=identity,
        rows=frozenset() if definition else below,
        within=above - {identity},
        version=str(number),
        unfit=unfit or foreign,
        unsafe=unsafe,
        remedy=next((fix for start, fix in _REMEDIES.items() if unfit.startswith(start)), remedy),
    )


def read_notes(connection: Connection, info: TableInfo) -> dict[str, ColumnNote]:
    """Return comments, unique keys and foreign keys by column; a key of several columns says nothing of one."""
    rows = fetch_from_postgres(connection, NOTES, [int(info.version)])
    return {
        name: ColumnNote(comment, unique, (schema, table, column) if column is not None else None)
        for name, comment, unique, schema, table, column in rows
    }


def _opaque_if_strange(described: Column, strangers: Mapping[str, str]) -> Column:
    """Return the column; where its type belongs to somebody else than the owner, return one that can have no role."""
    if described.name not in strangers:
        return described
    return Column(described.name, f'{described.type}, a type of role "{strangers[described.name]}"', "opaque")


def _definition(connection: Connection, kind: str, number: int, *, foreign: bool) -> str:
    """Return a view's text as CREATE VIEW; for what is neither a plain table nor a view a text that proves nothing."""
    if kind == "v":
        if fetch_from_postgres(connection, MADE_BY_USERS, [number]):
            return "a view that calls what users made"
        (text,) = fetch_from_postgres(connection, VIEW, [number])[0]
        return as_view(text, DIALECT)
    if kind == "m":
        return "a materialized view"
    return "a foreign table, or one with foreign parts" if foreign else ""
