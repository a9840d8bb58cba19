"""Writes a model as a SQL script for another database: two small tables, and a SELECT or view that scores rows there.

The script holds released numbers alone and is safe to publish. Predictions there equal our own in every row:
`compile/predict/portable_walk.py` says how, and `compile/predict/dialects.py` what each database needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from dpsql.compile.predict.dialects import DIALECTS, Dialect, check_dialect
from dpsql.compile.predict.portable_votes import portable_predictions
from dpsql.compile.predict.portable_walk import Portable
from dpsql.compile.vocabulary import int_literal
from dpsql.errors import ParameterError
from dpsql.models.model import ReleasedModel
from dpsql.trees.serialize import leaf_columns

__all__ = ["DIALECTS", "FORMS", "check_dialect", "export_script", "export_statements"]
#: The forms of the last statement.
FORMS = ("select", "view")
#: The rows of one INSERT; some databases take no more than 1000.
_ROWS = 500
#: A name that every database takes as part of a table's name.
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,49}")
#: One part of a qualified name: in double quotes, or plain.
_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
#: The columns of the table of nodes, with their types.
_NODE = {"node": "int", "place": "int", "child": "int", "ways": "varchar(128)"}
#: The comment above the script.
_HEAD = "-- dpsql model {name} for {dialect}: its tables, and a query that predicts. Safe to publish.\n\n"
#: The columns of the table of leaves, with their types.
_LEAF = {"leaf": "int", "class": "int", "weight": "bigint"}


def export_script(
    model: ReleasedModel,
    *,
    dialect: str,
    table: str = "new_rows",
    form: str = "select",
    name: str | None = None,
    probabilities: bool = False,
) -> str:
    """Return the script for one dialect: CREATE TABLE, INSERT, and a SELECT or view that scores a table's rows.

    `table` may be qualified with dots (a part with dots of its own in double quotes); the model's tables and the view
    are created in the same schema. `name` is what their names start with; without it they start with the model's name.
    """
    texts = export_statements(model, dialect=dialect, table=table, form=form, name=name, probabilities=probabilities)
    return _HEAD.format(name=_prefix(name, model.name), dialect=dialect) + "".join(f"{text};\n\n" for text in texts)


def export_statements(
    model: ReleasedModel, *, dialect: str, table: str, form: str, name: str | None, probabilities: bool
) -> list[str]:
    """Return the statements of the script, one text each, for programs that send them one by one."""
    target = check_dialect(dialect)
    if form not in FORMS:
        raise ParameterError("form", allowed=f"one of {', '.join(FORMS)}", given=form)
    if probabilities:
        model.check_classes()
    source, prefix = _parts(table), _prefix(name, model.name)
    statements = _statements(model, target, source, prefix, form=form, probabilities=probabilities)
    return [statement.sql(target.name, pretty=not isinstance(statement, exp.Insert)) for statement in statements]


def _statements(
    model: ReleasedModel, dialect: Dialect, source: Sequence[str], prefix: str, *, form: str, probabilities: bool
) -> Iterator[exp.Expr]:
    portable = Portable(model.schema, model.released.forest, dialect)
    nodes, leaves, view = (_table([*source[:-1], f"{prefix}_{part}"], dialect) for part in ("node", "leaf", "scored"))
    if dialect.before is not None:
        yield dialect.before
    columns = leaf_columns(model.released)
    votes = zip(*(columns[name].tolist() for name in _LEAF), strict=True)
    yield _create(nodes, _NODE, ("node",), dialect)
    yield from _inserts(nodes, _NODE, list(portable.node_rows()))
    yield _create(leaves, _LEAF, ("leaf", "class"), dialect)
    yield from _inserts(leaves, _LEAF, list(votes))
    query = portable_predictions(
        portable,
        _table(source, dialect),
        nodes=nodes,
        leaves=leaves,
        result="prediction",
        nat=model.released.nat,
        probabilities=probabilities,
    )
    yield query if form == "select" else _view(view, query, dialect)


def _create(table: exp.Table, columns: dict[str, str], key: Sequence[str], dialect: Dialect) -> exp.Expr:
    parts: list[exp.Expr] = [
        exp.ColumnDef(
            this=exp.to_identifier(name),
            kind=exp.DataType.build(kind, nullable=False),
            constraints=[exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if dialect.keys else [],
        )
        for name, kind in columns.items()
    ]
    if dialect.keys:
        parts.append(exp.PrimaryKey(expressions=[exp.to_identifier(name) for name in key]))
    properties = dialect.properties.copy() if dialect.properties is not None else None
    return exp.Create(this=exp.Schema(this=table.copy(), expressions=parts), kind="TABLE", properties=properties)


def _inserts(table: exp.Table, columns: dict[str, str], rows: Sequence[tuple[Any, ...]]) -> Iterator[exp.Expr]:
    into = exp.Schema(this=table.copy(), expressions=[exp.to_identifier(name) for name in columns])
    for start in range(0, len(rows), _ROWS):
        values = [exp.Tuple(expressions=[_literal(value) for value in row]) for row in rows[start : start + _ROWS]]
        yield exp.Insert(this=into.copy(), expression=exp.Values(expressions=values))


def _literal(value: int | str) -> exp.Expr:
    return int_literal(value) if isinstance(value, int) else exp.Literal.string(value)


def _view(view: exp.Table, query: exp.Expr, dialect: Dialect) -> exp.Expr:
    created = exp.Create(this=view, kind="VIEW", expression=query)
    if not dialect.view_in_text:
        return created
    text = exp.National(this=created.sql(dialect.name, pretty=True))
    return exp.Command(this="EXEC", expression=exp.Paren(this=text).sql(dialect.name))


def _table(parts: Sequence[str], dialect: Dialect) -> exp.Table:
    *schema, name = [dialect.identifier(part) for part in parts]
    catalog, db = ([None, None, *schema])[-2:]
    return exp.Table(this=name, db=db, catalog=catalog)


def _parts(table: str) -> list[str]:
    """Return the parts of a table's name: `a."b.c".d` has three."""
    parts = [quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(table)]
    written = ".".join(match.group() for match in _PART.finditer(table))
    if not 1 <= len(parts) <= 3 or written != table or "\x00" in table:
        raise ParameterError("table", allowed="a name, with up to two qualifiers before dots", given=table)
    return parts


def _prefix(name: str | None, model: str) -> str:
    if name is not None and not _NAME.fullmatch(name):
        raise ParameterError("name", allowed="up to 50 letters, digits and underscores, no digit first", given=name)
    return name or ("m_" * (not model[:1].isalpha()) + re.sub("[^A-Za-z0-9_]", "_", model))[:50]
