"""Finds out which tables a view reads, from its text alone, where the text can tell.

Nothing is guessed. A view that calls a function which dpsql does not know, a table function, or a function that users
made could read any table: from such a text nothing is concluded.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import Dialect, TokenType, exp, parse_one
from sqlglot.errors import SqlglotError

#: Nodes that call something by a name which sqlglot does not know, or that read what the query's text does not name.
_READERS = (
    exp.Anonymous, exp.AnonymousAggFunc, exp.Command, exp.Operator, exp.ReadCSV, exp.ReadParquet, exp.XMLTable,
    exp.OpenJSON, exp.QueryTransform,
)  # fmt: skip
#: The form of the names that parts of a query (its CTEs) may have. Other names can be files.
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
#: How names of files of rows end.
_FILE = re.compile(r"\.(parquet|pq|csv|tsv|json|jsonl|ndjson|csv\.gz)$", re.IGNORECASE)
#: How the names of the database's own tables begin.
_SYSTEM = ("pg_", "duckdb_", "sqlite_", "pragma_", "information_schema")


@dataclass(frozen=True)
class Reads:
    """The tables that a view's text names, each as schema and name, and the names that it gives to parts of itself."""

    tables: tuple[tuple[str | None, str], ...]
    parts: frozenset[str]


def tables_read(definition: str, dialect: str, *, macros: Collection[str] = ()) -> Reads | None:
    """Return what a view's text names, or None where it could read something that it does not name.

    `macros` are the functions that users made. A name in `parts` can also mean a table, where it stands outside the
    query that the part belongs to: a caller that looks names up must take the table, if there is one.

    >>> tables_read("CREATE VIEW v AS SELECT * FROM a JOIN s.b USING (k)", "duckdb").tables
    ((None, 'a'), ('s', 'b'))
    >>> tables_read("CREATE VIEW v AS SELECT * FROM query('FROM a')", "duckdb") is None
    True
    """
    try:
        parsed = parse_one(definition, dialect=dialect)
        query = parsed.expression if isinstance(parsed, exp.Create) and parsed.kind == "VIEW" else None
        if not isinstance(query, exp.Query) or _may_call_macro(definition, dialect, macros):
            return None
        nodes = list(query.walk())
    except (SqlglotError, RecursionError):
        return None
    tables = [node for node in nodes if isinstance(node, exp.Table)]
    if not all(_is_named_table(table) for table in tables) or any(_calls_unknown(node) for node in nodes):
        return None
    parts = {node.alias.lower() for node in nodes if isinstance(node, exp.CTE)}
    named = {(table.db or None, table.name) for table in tables}
    plain = frozenset(name for name in parts if _PLAIN.fullmatch(name) and not name.startswith(_SYSTEM))
    return Reads(tuple(sorted(named, key=lambda place: (place[0] or "", place[1]))), plain)


def file_read(definition: str, dialect: str) -> str | None:
    """Return the file that a view reads in place of a table, as its text names it; None where it names none.

    >>> file_read("CREATE VIEW v AS SELECT * FROM read_parquet('lake/x.parquet')", "duckdb")
    'lake/x.parquet'
    """
    try:
        nodes = list(parse_one(definition, dialect=dialect).walk())
    except (SqlglotError, RecursionError):
        return None
    calls = [node for node in nodes if isinstance(node, exp.ReadCSV | exp.ReadParquet)]
    texts = [text.name for call in calls for text in call.find_all(exp.Literal) if text.is_string]
    tables = [node.name for node in nodes if isinstance(node, exp.Table) and not node.db]
    return next(iter([*texts[:1], *(name for name in tables if _FILE.search(name))]), None)


def _is_named_table(table: exp.Table) -> bool:
    """Whether this is a table of this database, given by its name, and not one of the database's own tables."""
    own = (table.db or table.name).lower()
    return isinstance(table.this, exp.Identifier) and not table.catalog and not own.startswith(_SYSTEM)


def _calls_unknown(node: exp.Expr) -> bool:
    """Whether a node calls something unknown, or stands for a text that was not understood."""
    if isinstance(node, _READERS):
        return True
    if isinstance(node, exp.Lateral):
        return not isinstance(node.this, exp.Subquery | exp.Unnest | exp.Explode)
    return isinstance(node, exp.Dot) and node.find(exp.Func) is not None


def _may_call_macro(definition: str, dialect: str, macros: Collection[str]) -> bool:
    """Whether a text could call something that users made: by its name, or by an operator that stands for it."""
    names = {name.lower() for name in macros}
    if any(not name.replace("_", "").isalnum() for name in names):
        return True
    tokens = Dialect.get_or_raise(dialect).tokenize(definition)
    return any(
        name.text.lower() in names and following.token_type == TokenType.L_PAREN for name, following in pairwise(tokens)
    )


def expression_of(definition: str, dialect: str, column: str) -> str | None:
    """Return the expression of a view's column, as text to compare; None where the view's text does not tell it.

    The definition of a table is "", and the expression of each of its columns is that column itself.

    >>> expression_of("CREATE VIEW v AS SELECT t.day / 7 AS week FROM t", "duckdb", "week")
    '"day" / 7'
    """
    own = exp.column(exp.to_identifier(column.lower(), quoted=True))
    if not definition:
        return own.sql(dialect)
    try:
        create = parse_one(definition, dialect=dialect)
    except (SqlglotError, RecursionError):
        return None
    select = create.expression if isinstance(create, exp.Create) else None
    if not isinstance(select, exp.Select):
        return None
    names = [item.name for item in create.this.expressions] if isinstance(create.this, exp.Schema) else []
    for place, item in enumerate(select.expressions):
        name = names[place] if place < len(names) else item.alias_or_name
        if name.lower() == column.lower():
            return _without_tables(item.unalias()).sql(dialect)
    return own.sql(dialect) if any(item.is_star for item in select.expressions) else None


def _without_tables(expression: exp.Expr) -> exp.Expr:
    """Return an expression with its columns unqualified, in lower case and quoted."""
    return expression.transform(
        lambda node: (
            exp.column(exp.to_identifier(node.name.lower(), quoted=True)) if isinstance(node, exp.Column) else node
        )
    )
