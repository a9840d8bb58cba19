"""A numeric target in SQL: the steps of every value, the sums of every leaf, and the lock that lets only these pass."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.check import NotAggregate, check_statement
from dpsql.compile.count import leaves as counts
from dpsql.compile.count.leaf_predicate import leaf_query
from dpsql.compile.count.leaves import Slice
from dpsql.compile.rows import target_steps
from dpsql.compile.vocabulary import column
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import DuckDBVocabulary
from dpsql.engines.duckdb.open_database import open_file
from dpsql.schema import Target
from dpsql.trees.grid import axes
from tests.compile.running import KEYS
from tests.engines.aggregate import aggregate
from tests.rows import any_forest, class_of, source_of, walk
from tests.tables import TARGET, TARGET_UNITS, fill, rows_of, some_targets, types_of

WORDS = DuckDBVocabulary()
ODD = [0.0, -0.0, 0.05, 9.95, 10.0, -1e308, 1e308, 5e-324, math.inf, -math.inf, 1e15, 4.949999999999999, 4.95]


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Return one database for all tests of this file."""
    return open_file(":memory:")


@settings(max_examples=40)
@given(
    lower=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    steps=st.integers(2, 2**20),
    inside=st.lists(st.floats(0, 1), max_size=8),
)
def test_sql_and_python_round_alike(
    engine: Engine, lower: float, width: float, steps: int, inside: list[float]
) -> None:
    """Each value, infinities and values at half a step included, has the same step in SQL and in Python."""
    target = Target(lower, lower + width, steps)
    values = [
        *ODD,
        *(lower + width * share for share in inside),
        lower + 0.5 / target.scale,
        lower + 1.5 / target.scale,
    ]
    marks = ", ".join("(?)" for _ in values)
    text = target_steps(target, WORDS.number(column("v"), decimal=False), WORDS).sql("duckdb")
    with engine.transaction() as transaction:
        found = transaction.rows(f"SELECT v, {text} AS z FROM (VALUES {marks}) AS t(v)", values)
    assert [row["z"] for row in found] == [target.step(row["v"]) for row in found]
    assert len(found) == len(values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("HUGEINT", [-(2**126), 2**126, 0, 5]),
        ("UBIGINT", [0, 2**64 - 1, 7]),
        ("TINYINT", [-128, 127, 3]),
        ("FLOAT", [math.inf, -math.inf, 3.25, 1e38]),
        ("DECIMAL(38,10)", [Decimal("9.95"), Decimal(-5), Decimal(10**27)]),
    ],
)
def test_no_type_of_number_fails(engine: Engine, kind: str, values: list[Any]) -> None:
    """The ends of every numeric type have a step."""
    text = target_steps(Target(0, 10, 100), WORDS.number(column("v"), decimal=False), WORDS).sql("duckdb")
    for value in values:
        with engine.transaction() as transaction:
            found = transaction.rows(f"SELECT {text} AS z FROM (SELECT CAST(? AS {kind}) AS v)", [value])
        assert found[0]["z"] == Target(0, 10, 100).step(float(value))


@pytest.mark.parametrize("schema", [TARGET, TARGET_UNITS], ids=["row", "unit"])
@pytest.mark.parametrize("seed", range(4))
def test_the_statement_adds_up_what_plain_python_does(engine: Engine, schema: Any, seed: int) -> None:
    """Rows and steps of every leaf of shared trees are those of walking the trees row by row."""
    forest = any_forest(axes(schema), trees=3, depth=3, seed=seed)
    fill(engine, "people", [row for row in some_targets() if row[0] is not None], types_of(schema))
    statement = counts.leaf_sums(source_of(schema), forest, WORDS, KEYS, Slice(True, 0, 3))
    check_statement(statement.query, engine.vocabulary)
    found = aggregate(engine, statement.query, statement.tables)
    expected: dict[int, list[int]] = {}
    for row in rows_of(engine, "FROM people"):
        steps = class_of(schema, row)
        for leaf in walk(schema, forest, row) if steps is not None else []:
            held = expected.setdefault(leaf, [0, 0])
            held[0] += 1
            held[1] += int(steps or 0)
    assert found["steps"].dtype.kind == "i"
    assert {leaf: [rows, steps] for leaf, rows, steps in zip(*map(list, found.values()), strict=True)} == expected


def test_the_readable_query_of_a_leaf_agrees(engine: Engine) -> None:
    """`SELECT COUNT(*), SUM(steps) WHERE path` of each leaf is what the one statement says."""
    forest = any_forest(axes(TARGET), trees=2, depth=2, seed=5)
    fill(engine, "people", some_targets(), types_of(TARGET))
    where = source_of(TARGET)
    statement = counts.leaf_sums(where, forest, WORDS, KEYS, Slice(True, 0, 2))
    found = aggregate(engine, statement.query, statement.tables)
    whole = {int(leaf): (int(rows), int(steps)) for leaf, rows, steps in zip(*found.values(), strict=True)}
    for leaf in range(forest.leaves):
        row = rows_of(engine, leaf_query(where, forest, leaf, WORDS).sql("duckdb"))[0]
        assert (row["rows"], int(row["steps"] or 0)) == whole.get(leaf, (0, 0))


SUM = "SELECT node AS leaf, CAST(SUM({}) AS BIGINT) AS steps FROM t GROUP BY node"


@pytest.mark.parametrize("bounded", ["LEAST(GREATEST(class, 0), 100)", "LEAST(GREATEST(class, 0), 1048576)"])
def test_a_clamped_sum_passes(bounded: str) -> None:
    """A sum whose terms are clamped to literal bounds is an aggregate like a count."""
    assert check_statement(sqlglot.parse_one(SUM.format(bounded), dialect="duckdb"), WORDS) is None


@pytest.mark.parametrize(
    "loose",
    [
        "class",
        "salary",
        "LEAST(class, 100)",
        "GREATEST(class, 0)",
        "LEAST(GREATEST(class, 0), salary)",
        "LEAST(GREATEST(class, salary), 100)",
        "LEAST(GREATEST(class, -5), 100)",
        "LEAST(GREATEST(class, 5), 100)",
        "LEAST(GREATEST(class, 0), 1048577)",
        "LEAST(GREATEST(class, 0), 1e9)",
        "LEAST(GREATEST(class, 0), '9')",
        "LEAST(GREATEST(class, 0), 100, salary)",
        "LEAST(GREATEST(class * 9, 0), 100)",
        "LEAST(GREATEST(class, 0), 100) * 9",
        "GREATEST(LEAST(class, 100), 0)",
    ],
)
def test_a_loose_sum_is_refused(loose: str) -> None:
    """A sum whose terms have no literal bounds is refused."""
    with pytest.raises(NotAggregate):
        check_statement(sqlglot.parse_one(SUM.format(loose), dialect="duckdb"), WORDS)


def test_a_row_without_a_target_is_not_counted(engine: Engine) -> None:
    """NULL and NaN are left out; infinities count, whatever the features."""
    targets = [None, float("nan"), 5.0, float("inf"), float("-inf")]
    fill(engine, "people", [(1, None, None, target) for target in targets], types_of(TARGET))
    statement = counts.row_count(source_of(TARGET), WORDS, KEYS)
    assert aggregate(engine, statement.query, statement.tables)["rows"].tolist() == [3]
