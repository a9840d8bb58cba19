"""The command `dpsql bench start`: what the program costs before it does anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

import dpsql
from dpsql.bench import show
from dpsql.bench.start_up import measure_starts

HERE = Path(str(dpsql.__file__)).parent.parent


@click.command("start")
@click.option("--beside", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Another working copy of dpsql, measured in turns with this one.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1), default=5, show_default=True, help="Rounds; the least is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def start_command(beside: Path | None, repeat: int, as_json: bool) -> None:
    """Start dpsql, in units of an interpreter that imports click and rich.

    \b
    Example:
      dpsql bench start
      dpsql bench start --beside ../dpsql-before
    """
    trees = {"here": HERE} | ({str(beside): beside.resolve()} if beside is not None else {})
    figures = measure_starts(trees, repeat=repeat)
    show.either(figures, start_table(figures), as_json=as_json)


def start_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of starting as a table."""
    base = 1000 * figures["base_seconds"]
    shown = Table(title=f"Starting dpsql, CPU time in units of Python with `{figures['base']}` ({base:.0f} ms)")
    labels = list(next(iter(figures["starts"].values())))
    for word in ("start", *labels):
        shown.add_column(word, justify="left" if word == "start" else "right")
    for name, costs in figures["starts"].items():
        shown.add_row(name, *(show.number_text(costs[label]["ratio"], places=1) for label in labels))
    return shown
