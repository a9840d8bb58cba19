"""The command `dpsql bench engines`: what counting or training costs on a server, beside DuckDB in the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from dpsql.bench import engines as measuring
from dpsql.bench import show

_COLUMNS = {
    "duckdb_cpu": "DuckDB CPU",
    "cpu": "server CPU",
    "cpu_ratio": "ratio",
    "duckdb_wall": "DuckDB wall",
    "wall": "server wall",
    "wall_ratio": "ratio",
    "first": "first",
    "second": "second",
    "second_ratio": "ratio",
}


@click.command()
@click.option("--db", required=True, metavar="URL", help="A server in which a scratch table may be made.")
@click.option("--rows", type=click.IntRange(1), multiple=True, default=(1_000_000,), show_default=True,
              help="Rows of the table; repeatable.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1), default=5, show_default=True, help="Rounds; the least is kept.")
@click.option("--method", help="Train by this method (Spark and chDB), in place of counting once.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def engines(db: str, rows: tuple[int, ...], repeat: int, method: str | None, as_json: bool) -> None:
    """Count the leaves of a forest, or train one, on a server and in DuckDB, and compare CPU and wall time.

    \b
    Example:
      dpsql bench engines --db postgresql://owner@localhost/scratch --rows 1000000 --rows 5000000
      dpsql bench engines --db 'spark://local[2]' --method rdt
    """
    figures = measuring.measure_engine(db, rows, repeat=repeat, method=method)
    show.either(figures, engines_table(figures), as_json=as_json)


def engines_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    what = f"Training {figures['method']}," if figures["method"] else "Counting the leaves of"
    shown = Table(title=f"{what} {figures['trees']} trees of depth {figures['depth']}, seconds")
    for heading in ("rows", *_COLUMNS.values()):
        shown.add_column(heading, justify="right")
    for cost in figures["sizes"]:
        shown.add_row(f"{cost['rows']:,}", *(show.number_text(cost[name]) for name in _COLUMNS))
    return shown
