"""The command `python -m dpsql.bench`: prints what counting and noise cost here, with the goals beside."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dpsql.bench import counts as counting
from dpsql.bench import noise as noising

_SHORT = click.option("--short", is_flag=True, help="A smaller run of a few seconds.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
_REPEAT = click.option(
    "--repeat", type=click.IntRange(1), default=5, show_default=True, help="Rounds; the least is kept."
)


@click.group()
def main() -> None:
    """Measure dpsql on this machine. Figures are reported, not judged: the exit code is 0 whatever they are."""


@main.command()
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the table.")
@_REPEAT
@_SHORT
@_JSON
def counts(rows: int, repeat: int, short: bool, as_json: bool) -> None:
    """Count the leaves of forests, in units of one scan that reads every column (S).

    Example:

        python -m dpsql.bench counts --rows 1000000
    """
    figures = counting.measure(100_000 if short else rows, repeat=2 if short else repeat)
    _print(figures, counts_table(figures), as_json=as_json)


@main.command()
@click.option("--draws", type=click.IntRange(1), default=1_000_000, show_default=True, help="Numbers to draw.")
@_REPEAT
@_SHORT
@_JSON
def noise(draws: int, repeat: int, short: bool, as_json: bool) -> None:
    """Draw exact noise, beside OpenDP where it is installed.

    Example:

        python -m dpsql.bench noise --draws 1000000
    """
    figures = noising.measure(20_000 if short else draws, repeat=2 if short else repeat)
    _print(figures, noise_table(figures), as_json=as_json)


def counts_table(figures: Mapping[str, Any]) -> Table:
    """Return the counting figures as a table."""
    scan = 1000 * figures["s_seconds"]
    shown = Table(title=f"Counting leaves: {figures['rows']:,} rows, S = {scan:.1f} ms of CPU time")
    words = ("trees", "depth", "branches", "leaves", "statement S", "loading S", "total S", "goal S")
    for word in ("rows meet", *words, "per tree S", "growth S", "planning s", f"goal {counting.PLANNING_GOAL}", "SQL"):
        shown.add_column(word, justify="right")
    for cost in figures["cases"]:
        case = cost["case"]
        depth = f"{cost['grown_depth']}" if cost["grown_depth"] == case["depth"] else f"{cost['grown_depth']} (cut)"
        shown.add_row(
            "all trees" if case["shared"] else "one tree",
            f"{case['trees']:,}",
            depth,
            f"{case['branches']}",
            f"{cost['leaves']:,}",
            *(_number(cost[name]) for name in ("statement_s", "loading_s", "total_s")),
            _number(case["goal"], places=0),
            _number(cost["per_tree_s"]),
            _number(cost["growth_s"]),
            _number(cost["planning_seconds"], places=3),
            "met" if cost["planning_seconds"] < counting.PLANNING_GOAL else "missed",
            f"{cost['sql_characters']:,}",
        )
    return shown


def noise_table(figures: Mapping[str, Any]) -> Table:
    """Return the noise figures as a table."""
    shown = Table(title=f"Exact noise: {figures['draws']:,} draws, CPU seconds")
    for word in ("mechanism", "scale", "dpsql s", "OpenDP s", "OpenDP / dpsql", "goal"):
        shown.add_column(word, justify="right")
    for one in figures["discrete_laplace"]:
        theirs = "skipped: opendp is not installed" if one["opendp_seconds"] is None else f"{one['opendp_seconds']:.2f}"
        ratio = _number(one["ratio"], places=1)
        shown.add_row("discrete Laplace", one["scale"], f"{one['seconds']:.3f}", theirs, ratio, str(noising.GOAL))
    shown.add_row("permute-and-flip of 2", "", f"{figures['permute_and_flip_seconds']:.3f}", "", "", "")
    return shown


def _number(value: float | None, *, places: int = 2) -> str:
    return "" if value is None else f"{value:.{places}f}"


def _print(figures: Mapping[str, Any], shown: Table, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    # A pipe has no width: take one at which no line is broken.
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


if __name__ == "__main__":
    main(prog_name="python -m dpsql.bench")
