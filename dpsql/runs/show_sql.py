"""Shows the SQL that training runs: one leaf as a readable query, and the one statement that counts them all.

Where splits follow from noisy releases, only the trees that a run begins with are known, and their statement is shown.
What is shown depends on public facts alone: schema, parameters and seed. The secret keys that deal units out to trees
are shown as `$key_1`, `$key_2`, `$key_3`; they are drawn anew for each run and never stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql import methods
from dpsql.compile.count.leaf_predicate import leaf_query
from dpsql.compile.count.leaves import Slice, Statement, leaf_counts, leaf_sums
from dpsql.compile.count.literal import HIDDEN_KEYS, MOST_LEAVES, literal_counts, literal_sums
from dpsql.compile.rows import EVERY_UNIT, Source
from dpsql.engines.base import Engine
from dpsql.errors import ParameterError
from dpsql.kernel.datasets.dataset import source
from dpsql.kernel.plan import Plan
from dpsql.ledger import Ledger
from dpsql.notebook_html import Readable
from dpsql.runs.train import TrainRequest, plan_run
from dpsql.trees.forest import Forest


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Readable):
    """The readable query of one leaf, the statement that runs, and the node tables that it joins, with their rows."""

    table: str
    leaf: int
    tree: int
    leaf_sql: str
    statement_sql: str
    node_tables: dict[str, int]
    shared: bool = False
    public: bool = True
    by_part: bool = False
    statements: int = 1

    def __str__(self) -> str:
        rows = f"every row is in tree {self.tree}" if self.shared else f"on the rows dealt out to tree {self.tree}"
        if self.by_part and not self.shared:
            rows = f"tree {self.tree} has the rows of its stored part"
        levels = ", ".join(f"{name} ({rows} rows)" for name, rows in self.node_tables.items())
        runs = "this is what runs" if self.public else "trees that follow from noisy answers are not known yet"
        scans = "one scan" if self.statements == 1 else f"{self.statements} statements, each a scan"
        joins = f"-- It joins the small public tables {levels}.\n" if levels else ""
        return (
            f"-- Leaf {self.leaf} as a readable query ({rows}):\n"
            f"{self.leaf_sql};\n\n"
            f"-- All leaves of all trees, in {scans} of the table ({runs}).\n"
            f"{joins}{self.statement_sql};"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as plain values."""
        return {
            "table": self.table,
            "leaf": self.leaf,
            "tree": self.tree,
            "leaf_sql": self.leaf_sql,
            "statement_sql": self.statement_sql,
            "node_tables": self.node_tables,
        }


def show_sql(engine: Engine, ledger: Ledger, request: TrainRequest, *, leaf: int) -> Explanation:
    """Return the SQL that a request to train would run, for one leaf and for all. Touches no row."""
    planned = plan_run(engine, ledger, request)
    dataset, plan = planned.dataset, planned.plan
    where = source(engine, dataset, request.batch)
    method = methods.get(plan.method)
    forest = method.public_trees(where.schema, plan)
    if isinstance(leaf, bool) or not isinstance(leaf, int) or not 0 <= leaf < forest.leaves:
        raise ParameterError("leaf", allowed=f"a whole number from 0 to {forest.leaves - 1}", given=leaf)
    trees = Slice.of(where.schema, forest, shared=_walks_every_tree(plan))
    statements = _statements(where, forest, engine, trees, literal=request.literal)
    return Explanation(
        table=dataset.table,
        leaf=leaf,
        tree=int(forest.leaf_tree[leaf]),
        leaf_sql=leaf_query(where, forest, leaf, engine.vocabulary, trees).sql(engine.dialect, pretty=True),
        statement_sql=";\n".join(statement.query.sql(engine.dialect, pretty=True) for statement in statements),
        shared=trees.shared,
        public=method.trees_are_public,
        node_tables={name: int(np.size(columns["node"])) for name, columns in statements[0].tables.items()},
        by_part=trees.parts is not None,
        statements=len(statements),
    )


def _statements(where: Source, forest: Forest, engine: Engine, trees: Slice, *, literal: bool) -> list[Statement]:
    """Return the statements that count the leaves of a forest: one for all of them, or literally one for each."""
    words, classes = engine.vocabulary, where.schema.target is None
    if not literal or forest.leaves > MOST_LEAVES:
        build = leaf_counts if classes else leaf_sums
        return [build(where, forest, words, HIDDEN_KEYS, trees)]
    count = literal_counts if classes else literal_sums
    return [count(where, forest, leaf, words, HIDDEN_KEYS, trees, EVERY_UNIT) for leaf in range(forest.leaves)]


def _walks_every_tree(plan: Plan) -> bool:
    """Return whether the first step that fills leaves counts every row in every tree.

    Where the plan names no such step yet, every row is in every tree.
    """
    return next((step.shared for step in plan.steps if step.operation.fills_leaves), True)
