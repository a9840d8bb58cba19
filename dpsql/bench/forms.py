"""The command `dpsql bench forms`: the same leaves counted by one statement, and literally by one for each leaf.

Both are timed on the random table of the bench, whose rows are nobody's, and must agree on every count.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.table import Table

from dpsql.bench import show
from dpsql.bench.counts import TICKETS
from dpsql.bench.table import create_bench_table
from dpsql.compile.count.leaves import Slice, Statement, leaf_counts
from dpsql.compile.count.literal import literal_counts
from dpsql.compile.rows import EVERY_UNIT, Source
from dpsql.engines.base import Arrays, Engine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest

#: The trees and the depth of the forests that are counted.
SHAPES = ((1, 3), (10, 3), (10, 5))


@dataclass(frozen=True)
class Forms:
    """The wall-clock seconds of both forms for one forest, the least of several rounds."""

    trees: int
    depth: int
    leaves: int
    one_statement: float
    literal: float
    equal: bool


@click.command()
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the table.")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Rounds; the least is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def forms(rows: int, repeat: int, as_json: bool) -> None:
    """Count leaves by one statement and literally, one WHERE … GROUP BY for each leaf, and compare seconds.

    \b
    Example:
      dpsql bench forms --rows 100000

    `dpsql train --literal` runs the second form.
    """
    figures = measure_forms(rows, repeat=repeat)
    show.either({"rows": rows, "figures": figures}, forms_table(figures), as_json=as_json)


def measure_forms(rows: int, *, repeat: int) -> list[dict[str, Any]]:
    """Return both forms' seconds for each of the forests, as plain values."""
    engine = open_file(":memory:")
    try:
        source = create_bench_table(engine, rows)
        return [asdict(_forms(engine, source, *shape, repeat=repeat)) for shape in SHAPES]
    finally:
        engine.close()


def _forms(engine: Engine, source: Source, trees: int, depth: int, *, repeat: int) -> Forms:
    forest = random_forest(axes(source.schema), trees=trees, depth=depth, seed=1, branches=2)
    every_tree = Slice.of(source.schema, forest, shared=True)
    statement = leaf_counts(source, forest, engine.vocabulary, TICKETS, every_tree)
    leaves = [
        literal_counts(source, forest, leaf, engine.vocabulary, TICKETS, every_tree, EVERY_UNIT)
        for leaf in range(forest.leaves)
    ]
    by_leaf = _run(engine, [statement])[0]
    at_once = Counter(dict(zip(zip(by_leaf["leaf"], by_leaf["class"], strict=True), by_leaf["rows"], strict=True)))
    literally: Counter[Any] = Counter()
    for leaf, groups in enumerate(_run(engine, leaves)):
        literally.update({(leaf, key): count for key, count in zip(groups["class"], groups["rows"], strict=True)})
    one_statement, literal = (min(_seconds(engine, form) for _ in range(repeat)) for form in ([statement], leaves))
    return Forms(trees, depth, forest.leaves, one_statement, literal, equal=at_once == literally)


def _run(engine: Engine, statements: Sequence[Statement]) -> list[Arrays]:
    with engine.workspace() as here:
        return [here.aggregate(statement.query, statement.tables) for statement in statements]


def _seconds(engine: Engine, statements: Sequence[Statement]) -> float:
    started = time.perf_counter()
    _run(engine, statements)
    return time.perf_counter() - started


def forms_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return the figures as a table."""
    shown = Table(title="The same counts in two forms, in seconds")
    for heading in ("trees", "depth", "leaves", "one statement", "one for each leaf", "equal"):
        shown.add_column(heading, justify="right")
    for figure in figures:
        shown.add_row(
            str(figure["trees"]),
            str(figure["depth"]),
            str(figure["leaves"]),
            show.number_text(figure["one_statement"], places=3),
            show.number_text(figure["literal"], places=3),
            "yes" if figure["equal"] else "NO",
        )
    return shown
