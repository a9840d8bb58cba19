"""Explaining: the readable query of a leaf selects the leaf's rows; the statement that runs shows no key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import ParameterError
from dpsql.schema import Schema
from tests.rows import naive_counts
from tests.tables import SCHEMA, UNITS, memory, rows_of, run, some_rows, stored

#: A small run whose trees are public: all of them are known before any row is read.
ROSNAM: dict[str, Any] = {"method": "rosnam", "trees": 2, "depth": 2}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Open a database with rows of all kinds in "people"."""
    with memory(some_rows()) as opened:
        yield opened


def test_the_leaf_query_counts_the_rows_of_its_leaf(database: Database) -> None:
    """For every leaf the readable query gives, by class, the rows that a walk in plain Python brings there."""
    plan = database.plan("people", **ROSNAM)
    forest = methods.get(plan.method).public_trees(SCHEMA, plan)
    expected = naive_counts(SCHEMA, forest, rows_of(database.engine, "FROM people"))
    found: Counter[tuple[int, int]] = Counter()
    for leaf in range(forest.leaves):
        shown = database.explain("people", leaf=leaf, **ROSNAM)
        assert shown.tree == forest.leaf_tree[leaf]
        for row in rows_of(database.engine, shown.leaf_sql):
            found[leaf, SCHEMA.classes.index(row["y"])] += row["rows"]
    assert found == expected


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_the_statement_shows_no_key(schema: Schema) -> None:
    """Where secret keys stand when it runs, the shown statement has $key_1, $key_2, $key_3, and no long number."""
    with memory(some_rows(), schema=schema) as opened:
        shown = str(opened.explain("people", **ROSNAM))
    assert all(f"$key_{number}" in shown for number in (1, 2, 3))
    assert not re.search(r"\d{10,}", shown)


def test_the_statement_is_the_one_that_runs(database: Database) -> None:
    """Apart from the keys, what is shown is what the kernel runs."""
    from tests.kernel.helpers import Watched

    watched = Watched(database.engine)
    Database(watched, who="ann").train("people", **ROSNAM)  # type: ignore[arg-type]
    shown = database.explain("people", **ROSNAM).statement_sql
    squeezed = re.sub(r"\s", "", re.sub(r"\$key_\d", "KEY", shown))
    assert squeezed == re.sub(r"\s", "", watched.statements[0])


def test_the_node_tables_are_named_with_their_rows(database: Database) -> None:
    """Each level's small table is listed with its number of nodes."""
    shown = database.explain("people", **{**ROSNAM, "trees": 5})
    assert list(shown.node_tables) == ["level_0", "level_1"]
    assert shown.node_tables["level_0"] == 5


def test_explaining_leaves_no_trace(database: Database) -> None:
    """Nothing is charged or stored."""
    before = stored(database)
    database.explain("people", **ROSNAM)
    assert stored(database) == before


@pytest.mark.parametrize("leaf", [-1, 10**6, True, "0", None, 1.0])
def test_a_leaf_that_is_not_there_is_refused(database: Database, leaf: object) -> None:
    """The error says how many leaves there are."""
    with pytest.raises(ParameterError) as caught:
        database.explain("people", leaf=leaf, **ROSNAM)  # type: ignore[arg-type]
    assert caught.value.name == "leaf"


def test_a_view_is_explained_on_its_base(database: Database) -> None:
    """For a registered view the readable query reads the base table with the view's own filter."""
    with memory(some_rows()) as opened:
        run(
            opened.engine,
            "CREATE TABLE base AS FROM people",
            "CREATE VIEW part AS SELECT x, c, y FROM base WHERE x > 5",
        )
        opened.register("part", SCHEMA, cap=1)
        text = opened.explain("part", method="rosnam", trees=1, depth=1).leaf_sql
    assert '"base"' in text
    assert "> 5" in text


def test_the_default_shows_its_one_feature_trees(database: Database) -> None:
    """Of trees that follow from noisy answers only the first are known: one for each feature, each with every row."""
    plan = database.plan("people")
    forest = methods.get(plan.method).public_trees(SCHEMA, plan)
    expected = naive_counts(SCHEMA, forest, rows_of(database.engine, "FROM people"))
    shown = database.explain("people", leaf=1)
    found = {(1, SCHEMA.classes.index(row["y"])): row["rows"] for row in rows_of(database.engine, shown.leaf_sql)}
    assert found == {cell: rows for cell, rows in expected.items() if cell[0] == 1}
    assert forest.trees == len(SCHEMA.features)
    assert "(every row is in tree 0)" in str(shown)
    assert "trees that follow from noisy answers are not known yet" in str(shown)
    assert "this is what runs" not in str(shown)
