"""No cell makes a run fail: every role of a column, with the extremes of every type of every engine.

A type is refused when it is registered, which its name alone decides, or a run ends well on any rows of it. So two
tables that differ in one unit are both refused before a charge, or both counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from dpsql.compile.rows import EVERY_UNIT, Source, table_reference
from dpsql.compile.vocabulary import column
from dpsql.engines.base import Engine
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.dataset import resolve, source
from dpsql.kernel.exact import Rows
from dpsql.schema import Schema
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.conformance.extremes import EXTREMES, MADE
from tests.conformance.tables import run_in
from tests.tables import dataset_of

_NUMBER = {"clickhouse": "Nullable(Float64)", "postgres": "double precision"}
_TEXT = {"clickhouse": "Nullable(String)", "spark": "string", "postgres": "text", "duckdb": "VARCHAR"}
_ENDING = {"spark": " USING parquet", "clickhouse": " ENGINE = MergeTree ORDER BY tuple()"}
#: Roles that need a statement for each type; in Spark a statement takes seconds, so one of them must do.
ROLES = ("unit", "partition", "batch", "label", "integer label", "boolean label", "target")
_SLOW = {"spark": ("unit", "target")}
#: How many types of each engine hold dates or times.
_DATED_TYPES = {"duckdb": 4, "postgres": 3, "spark": 3, "clickhouse": 4}
_NUMERIC = {"type": "numeric", "lower": 0, "upper": 1000}
#: Categories that texts, whole numbers and dates can have: what a type can never hold is refused.
_CATEGORIES = tuple(
    {"type": "categorical", "values": values} for values in (["a", "b", "1"], ["0", "1"], ["2020-01-01"])
)


def names(engine: Engine) -> dict[str, str]:
    """Return the columns of the table "extremes", one for each type, and its type."""
    return {f"c{number}": kind for number, kind in enumerate(EXTREMES[engine.dialect])}


@pytest.fixture
def extremes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Open an empty database of each engine, with one table of all types: a row for each extreme, and one of NULLs."""
    kinds = {"x": _NUMBER.get(engine.dialect, "double"), "y": _TEXT[engine.dialect]} | names(engine)
    literals = list(EXTREMES[engine.dialect].values())
    full = f"{engine.home}.extremes"
    defined = ", ".join(f"{name} {_nullable(engine, kind)}" for name, kind in kinds.items())
    run_in(engine, *MADE.get(engine.dialect, ()), f"DROP TABLE IF EXISTS {full}")
    run_in(engine, f"CREATE TABLE {full} ({defined}){_ENDING.get(engine.dialect, '')}")
    most = max(map(len, literals))
    rows = [
        [
            cells[place] if place < len(cells) else _null(engine, kind)
            for cells, kind in zip(literals, names(engine).values(), strict=True)
        ]
        for place in range(most + 1)
    ]
    for block in [rows] if engine.dialect == "spark" else [[row] for row in rows]:
        inserted = ", ".join("(" + ", ".join(["0.5", "'no'", *row]) + ")" for row in block)
        run_in(engine, f"INSERT INTO {full} VALUES {inserted}")
    for asked in ("table", "redefined_functions"):  # the catalog stays as it is, and is asked a hundred times
        monkeypatch.setattr(engine, asked, cache(getattr(engine, asked)))
    yield engine
    run_in(engine, f"DROP TABLE {full}")


def _nullable(engine: Engine, kind: str) -> str:
    """Return a type that takes NULL, where ClickHouse has one."""
    bare = engine.dialect != "clickhouse" or kind.startswith(
        ("Nullable", "LowCard", "Array", "Map", "Tuple", "Var", "Dyn", "JSON")
    )
    return kind if bare else f"Nullable({kind})"


def _null(engine: Engine, kind: str) -> str:
    return "NULL" if _nullable(engine, kind).startswith("Nullable") or engine.dialect != "clickhouse" else "DEFAULT"


def declared(engine: Engine, **other: Any) -> Source | None:
    """Return the rows of "extremes" under a schema with other parts, None where its registration is refused."""
    given: dict[str, Any] = {"label": "y", "classes": ["no", "yes"], "features": {"x": _NUMERIC}} | other
    given = {name: part for name, part in given.items() if part is not None}
    try:
        _, _, schema = resolve(engine, "extremes", Schema.from_dict(given))
    except SchemaError:
        return None
    return source(engine, dataset_of(engine, "extremes", schema))


def count(engine: Engine, rows: Source) -> np.ndarray[Any, Any]:
    """Return the counts of a small forest in which each unit is in one tree, as a run would read them."""
    forest = random_forest(axes(rows.schema), trees=2, depth=2, seed=1)
    counted = Rows(engine, rows, {})
    try:
        if rows.schema.target is not None:
            return counted.leaf_sums(forest, EVERY_UNIT, shared=False)
        return counted.leaf_counts(forest, EVERY_UNIT, shared=False)
    finally:
        counted.close()


def test_no_feature_makes_a_run_fail(extremes: Engine) -> None:
    """All types at once, as numbers where they can be and else as categories, and the other way round."""
    for order in ((_NUMERIC, *_CATEGORIES), (*_CATEGORIES, {"type": "boolean"})):
        features = {}
        for name in names(extremes):
            fitting = [one for one in order if declared(extremes, features={name: one}) is not None]
            if fitting:
                features[name] = fitting[0]
        rows = declared(extremes, features=features)
        assert rows is not None
        assert len(features) > 3
        assert count(extremes, rows).sum() == _rows(extremes)


def test_no_date_makes_a_run_fail(extremes: Engine) -> None:
    """Every type of dates and times as a number of days and of seconds; all other types are refused."""
    for kind in ("date", "timestamp"):
        dated = {"type": kind, "lower": "1990-01-01", "upper": "2030-01-01"}
        features = {name: dated for name in names(extremes) if declared(extremes, features={name: dated}) is not None}
        rows = declared(extremes, features=features)
        assert rows is not None
        assert len(features) == _DATED_TYPES[extremes.dialect]
        assert count(extremes, rows).sum() == _rows(extremes)


@pytest.mark.parametrize("role", ROLES)
def test_no_cell_makes_a_run_fail(extremes: Engine, role: str) -> None:
    """Each type that may have the role is counted, its rows once each at most; all others are refused beforehand."""
    if role not in _SLOW.get(extremes.dialect, ROLES):
        pytest.skip(f"{extremes.dialect}: too slow for every role")
    counted = 0
    for name in names(extremes):
        rows = declared(extremes, **_role(role, name))
        if rows is None:
            continue
        used = rows.with_value(name, "a") if role == "batch" else rows
        assert count(extremes, used).sum() >= 0, f"{role} {names(extremes)[name]}"
        counted += 1
    assert counted >= (1 if role.endswith("label") else 2)


def test_equal_units_have_one_ticket(extremes: Engine) -> None:
    """Wherever PARTITION BY takes two values for one unit, so does the hash that deals units out."""
    for name, kind in names(extremes).items():
        if declared(extremes, **_role("unit", name)) is not None:
            assert _torn(extremes, name) == 0, kind


def _role(role: str, name: str) -> dict[str, Any]:
    return {
        "unit": {"privacy_unit": {"column": name, "max_rows": 2}},
        "partition": {"partition": name},
        "batch": {"batch": name},
        "label": {"label": name, "classes": ["a", "no", "1", "true"]},
        "integer label": {"label": name, "classes": ["0", "1"]},
        "boolean label": {"label": name, "classes": ["false", "true"]},
        "target": {"label": name, "classes": None, "target": {"lower": 0, "upper": 1000, "steps": 100}},
    }[role]


def _rows(engine: Engine) -> int:
    return max(map(len, EXTREMES[engine.dialect].values())) + 1


def _torn(engine: Engine, name: str) -> int:
    """Return how many rows are of a unit that has several tickets."""
    info = engine.table("extremes")
    assert info is not None
    ticket = engine.vocabulary.keyed_hash([column(name)], (1, 2, 3))
    windows: Sequence[exp.Expr] = [
        exp.alias_(exp.Window(this=kind(this=exp.column("ticket")), partition_by=[column("unit")]), alias)
        for kind, alias in ((exp.Min, "low"), (exp.Max, "high"))
    ]
    drawn = exp.select(exp.alias_(ticket, "ticket"), exp.alias_(column(name), "unit")).from_(
        table_reference(info.table, info.schema)
    )
    ranged = exp.select(*windows).from_(drawn.subquery("drawn"))
    torn = exp.select(exp.alias_(exp.Count(this=exp.Star()), "torn")).from_(ranged.subquery("ranged"))
    return int(engine.frame(torn.where(exp.column("low").neq(exp.column("high"))))["torn"][0])
