"""PostgreSQL's catalog: the queries that read it, and our words for its types. No row, no statistic."""

from __future__ import annotations

TABLES = """
SELECT n.nspname, c.relname, c.relkind, c.oid, EXISTS (SELECT 1 FROM pg_inherits AS i WHERE i.inhrelid = c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'dpsql')
  AND n.nspname NOT LIKE 'pg\\_t%'
"""
#: A column of a domain has the type that the domain is made of.
COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, NULL) ELSE format_type(a.atttypid, NULL) END,
       t.typtype,
       CASE WHEN t.typtype = 'e'
           THEN (SELECT array_agg(CAST(e.enumlabel AS TEXT) ORDER BY e.enumsortorder)
                 FROM pg_enum AS e WHERE e.enumtypid = t.oid) END
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = ? AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
CHECKS = "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conrelid = ? AND contype = 'c'"
VIEW = "SELECT pg_get_viewdef(CAST(? AS OID))"

_OPAQUE = frozenset(
    ("json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "tsvector", "tsquery", "money", "bit")
)
_FAMILIES = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision", "numeric"), "real"),
    **dict.fromkeys(("text", "character varying", "character"), "text"),
    "boolean": "boolean",
    "date": "date",
}


def family(base: str, typtype: str) -> str:
    """Return our word for a type, by the name of what it is made of; an ENUM is text.

    A type whose values cannot be told apart by a hash, such as json, is opaque: it can be no key of anything.

    >>> family("integer", "b"), family("numeric", "d"), family("mood", "e"), family("date", "b"), family("json", "b")
    ('integer', 'real', 'text', 'date', 'opaque')
    """
    if base.split("[")[0] in _OPAQUE or typtype == "c":
        return "opaque"
    return "text" if typtype == "e" else _FAMILIES.get(base.split("(")[0], "other")
