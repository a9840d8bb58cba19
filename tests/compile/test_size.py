"""Statements stay small: text, planning and number of tables for any number of trees and depth."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import sqlglot

from dpsql.compile.count.leaves import Slice, Statement, leaf_counts
from dpsql.engines.duckdb.engine import DuckDBEngine, DuckDBVocabulary
from dpsql.engines.duckdb.open_database import open_file
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.compile.running import KEYS
from tests.rows import create, random_table, source_of

SCHEMA = Schema(
    "label",
    ("no", "yes"),
    (*(Numeric(f"x{k}", 0, 64) for k in range(9)), *(Categorical(f"c{k}", ("a", "b", "c")) for k in range(4))),
)
WORDS = DuckDBVocabulary()


def built(trees: int, depth: int, *, shared: bool = False) -> Statement:
    """Return the statement that counts a forest of that size."""
    forest = random_forest(axes(SCHEMA), trees=trees, depth=depth, seed=1, branches=2, limit=2**26)
    assert (forest.trees, forest.depth) == (trees, depth)
    return leaf_counts(source_of(SCHEMA), forest, WORDS, KEYS, Slice(shared, 0, trees))


def length(trees: int, depth: int, *, shared: bool = False) -> int:
    """Return the length of the statement's text."""
    return len(built(trees, depth, shared=shared).query.sql("duckdb"))


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "disjoint"])
def test_text_does_not_grow_with_the_number_of_trees(shared: bool) -> None:
    """A thousand trees take the same text as two, but for the digits of the number of trees."""
    assert abs(length(1000, 6, shared=shared) - length(2, 6, shared=shared)) <= 8


def test_text_grows_linearly_with_depth() -> None:
    """Each further level adds the same text, but for the digits of its number."""
    lengths = [length(3, depth) for depth in (2, 6, 10, 14)]
    steps = [after - before for before, after in pairwise(lengths)]
    assert max(steps) - min(steps) <= 4 * 12
    assert max(steps) < 4 * 500


def test_a_large_forest_stays_below_ten_kilobytes() -> None:
    """Depth 12 over 13 features takes less than 10 kB of SQL (whatever the number of trees, see above)."""
    assert length(2, 12) < 10_000


def test_there_is_one_small_table_per_level() -> None:
    """The statement joins one node table per level, and the roots where trees are shared."""
    assert sorted(built(50, 3).tables) == ["level_0", "level_1", "level_2"]
    assert sorted(built(50, 3, shared=True).tables) == ["level_0", "level_1", "level_2", "roots"]


def test_the_private_table_is_read_once() -> None:
    """The private table's name stands once in the statement: one scan."""
    query = built(50, 5).query
    assert [table.name for table in query.find_all(sqlglot.exp.Table) if table.db] == ["people"]


def test_planning_does_not_grow_with_the_number_of_trees() -> None:
    """At depth 12, planning for 1000 trees takes no more than a few times as long as for two, in the same run."""
    engine = open_file(":memory:")
    create(engine, "people", random_table(SCHEMA, 10, 1))
    few, many = (planning(engine, built(2, 12), times) for times in (1, 500))
    engine.close()
    assert many < 5 * few


def planning(engine: DuckDBEngine, statement: Statement, times: int) -> float:
    """Return the least CPU time that EXPLAIN of a statement takes, with node tables so many times as long."""
    with engine.transaction() as transaction:
        for name, columns in statement.tables.items():
            fields = ", ".join(f"{column} {_TYPES[column.split('_')[0]]}" for column in columns)
            transaction.run(f"CREATE OR REPLACE TEMP TABLE {name} ({fields})")
            rows = len(columns["node"]) * times
            filled = ", ".join("range" if column == "node" else "0" for column in columns)
            transaction.run(f"INSERT INTO {name} SELECT {filled} FROM range({rows})")
        taken = []
        for _ in range(5):
            before = time.process_time()
            transaction.rows("EXPLAIN " + statement.query.sql("duckdb"))
            taken.append(time.process_time() - before)
    return min(taken)


_TYPES = {"node": "INTEGER", "word": "SMALLINT", "shift": "UTINYINT", "child": "INTEGER", "plane": "UBIGINT"}
