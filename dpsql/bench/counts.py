"""Measures what counting the leaves of a forest costs, by the statement and the engine that training uses.

The unit S is the CPU time of one scan that reads every column, measured in turns with the rest. The table
lies in a DuckDB file, opened as dpsql opens one. Goals are printed beside the figures; nothing is asserted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from sqlglot import exp

from dpsql.bench import table
from dpsql.bench.clock import Act, cpu_seconds, least
from dpsql.compile.check import check_statement
from dpsql.compile.count import leaves as counts
from dpsql.compile.count.leaves import Slice, Statement
from dpsql.compile.rows import Source, Tickets
from dpsql.engines.base import Engine, Tables
from dpsql.engines.duckdb.open_database import open_file
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import MOST_BRANCHES, random_forest

#: Seconds of CPU time that planning a statement should take at most.
PLANNING_GOAL = 0.2
#: Any keys will do: what a ticket hides is not at stake here.
TICKETS = Tickets((0x1234567890ABCDEF, 0x0FEDCBA987654321, 0x5555AAAA5555AAAA))
#: A query that costs nothing: with it, loading the node tables is all there is.
NOTHING = exp.select(exp.Count(this=exp.Star()).as_("rows")).from_("level_0")


@dataclass(frozen=True)
class CountCase:
    """A forest to count; `goal` is in S, for all trees together. A case that is not `counted` is planned only."""

    trees: int
    depth: int
    shared: bool = False
    branches: int = 2
    goal: float | None = None
    counted: bool = True


#: Two branches a split, as the goals were set; the default of `rosnam` has more branches, so more leaves.
CASES = (
    CountCase(10, 8, goal=9),
    CountCase(100, 8, goal=9),
    CountCase(100, 12, goal=20),
    CountCase(100, 8, branches=MOST_BRANCHES),
    CountCase(10, 8, shared=True),
    CountCase(1000, 8, counted=False),
)


@dataclass(frozen=True)
class CountCost:
    """What a case costs: times in S but for planning, which is in seconds; None where it was not counted."""

    case: CountCase
    grown_depth: int
    leaves: int
    sql_characters: int
    planning_seconds: float
    growth_s: float
    statement_s: float | None
    loading_s: float | None
    total_s: float | None

    @property
    def per_tree_s(self) -> float | None:
        """The statement's cost for one tree, where every tree reads every row."""
        return self.statement_s / self.case.trees if self.case.shared and self.statement_s else None


def measure_counts(rows: int, *, repeat: int) -> dict[str, object]:
    """Return the figures of all cases on a table of that many rows, as plain values."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_file(Path(folder) / "bench.duckdb", create=True)
        try:
            source = table.create_bench_table(engine, rows)
            unit = least({"scan": partial(run_scan, engine)}, repeat=2 * repeat)["scan"]
            costs = [measure_case(engine, source, case, unit, repeat=repeat) for case in CASES]
        finally:
            engine.close()
    cases = [{**asdict(cost), "per_tree_s": cost.per_tree_s} for cost in costs]
    return {"rows": rows, "repeat": repeat, "s_seconds": unit, "planning_goal_seconds": PLANNING_GOAL, "cases": cases}


def measure_case(engine: Engine, source: Source, case: CountCase, unit: float, *, repeat: int) -> CountCost:
    """Return what one case costs; `unit` is S, taken anew in turns where the case is counted."""
    grow = partial(
        random_forest, axes(source.schema), trees=case.trees, depth=case.depth, seed=1, branches=case.branches
    )
    forest = grow()
    statement = counts.leaf_counts(source, forest, engine.vocabulary, TICKETS, Slice(case.shared, 0, case.trees))
    check_statement(statement.query, engine.vocabulary)
    keep_tables(engine, statement)
    try:
        planning = least({"plan": partial(run_plan, engine, statement)}, repeat=repeat)["plan"]
        times = least(_acts(engine, statement), repeat=repeat) if case.counted else {"scan": unit}
    finally:
        drop_tables(engine, statement)
    return _cost(case, forest, statement, planning, cpu_seconds(grow), times)


def run_scan(engine: Engine) -> None:
    """Run the scan that is S."""
    with engine.transaction() as transaction:
        transaction.rows(table.scan())


def run_aggregate(engine: Engine, query: exp.Expr, tables: Tables) -> None:
    """Run one aggregate in a workspace of its own, with `tables` loaded for it."""
    with engine.workspace() as here:
        here.aggregate(query, tables)


def run_plan(engine: Engine, statement: Statement) -> None:
    """Let the engine plan a statement without running it."""
    with engine.transaction() as transaction:
        transaction.rows(exp.Command(this="EXPLAIN", expression=statement.query.sql(engine.dialect)))


def keep_tables(engine: Engine, statement: Statement) -> None:
    """Store a statement's node tables, so that it can be run and planned without loading them each time."""
    for name, columns in statement.tables.items():
        engine.create(name, exp.select("*").from_("batch"), {"batch": pd.DataFrame(dict(columns))})


def drop_tables(engine: Engine, statement: Statement) -> None:
    """Drop what `keep_tables` stored."""
    with engine.transaction() as transaction:
        for name in statement.tables:
            transaction.run(exp.Drop(tables=[exp.to_table(name)], kind="TABLE"))


def _acts(engine: Engine, statement: Statement) -> dict[str, Act]:
    return {
        "scan": partial(run_scan, engine),
        "statement": partial(run_aggregate, engine, statement.query, {}),
        "loading": partial(run_aggregate, engine, NOTHING, statement.tables),
        "total": partial(run_aggregate, engine, statement.query, statement.tables),
    }


def _cost(
    case: CountCase, forest: Forest, statement: Statement, planning: float, growth: float, times: Mapping[str, float]
) -> CountCost:
    in_s = {name: seconds / times["scan"] for name, seconds in times.items()}
    return CountCost(
        case=case,
        grown_depth=forest.depth,
        leaves=forest.leaves,
        sql_characters=len(statement.query.sql("duckdb")),
        planning_seconds=planning,
        growth_s=growth / times["scan"],
        statement_s=in_s.get("statement"),
        loading_s=in_s.get("loading"),
        total_s=in_s.get("total"),
    )
