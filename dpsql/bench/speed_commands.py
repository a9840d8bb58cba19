"""The commands `dpsql bench counts`, `growth` and `noise`: what counting leaves, growing trees and noise cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from dpsql.bench import counts as counting
from dpsql.bench import growth as growing
from dpsql.bench import noise_speed, scoring, show

_SHORT = click.option("--short", is_flag=True, help="A smaller run of a few seconds.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
_REPEAT = click.option(
    "--repeat", type=click.IntRange(1), default=5, show_default=True, help="Rounds; the least is kept."
)


@click.command("counts")
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the table.")
@_REPEAT
@_SHORT
@_JSON
def counts_command(rows: int, repeat: int, short: bool, as_json: bool) -> None:
    """Count the leaves of forests, in units of one scan that reads every column (S).

    \b
    Example:
      dpsql bench counts --rows 1000000
    """
    figures = counting.measure_counts(100_000 if short else rows, repeat=2 if short else repeat)
    show.either(figures, counts_table(figures), as_json=as_json)


@click.command()
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the larger table.")
@_REPEAT
@_SHORT
@_JSON
def growth(rows: int, repeat: int, short: bool, as_json: bool) -> None:
    """Train trees that look at the data, at a quarter of the rows and at all of them, in units of one scan (S).

    \b
    Example:
      dpsql bench growth --rows 1000000
    """
    most = 40_000 if short else rows
    figures = growing.measure_growth((max(1, most // 4), most), repeat=1 if short else repeat)
    show.either(figures, growth_table(figures), as_json=as_json)


@click.command()
@click.option("--draws", type=click.IntRange(1), default=1_000_000, show_default=True, help="Numbers to draw.")
@_REPEAT
@_SHORT
@_JSON
def noise(draws: int, repeat: int, short: bool, as_json: bool) -> None:
    """Draw exact noise, beside OpenDP where it is installed.

    \b
    Example:
      dpsql bench noise --draws 1000000
    """
    figures = noise_speed.measure_noise(20_000 if short else draws, repeat=2 if short else repeat)
    show.either(figures, noise_lines(figures), as_json=as_json)


@click.command("scoring")
@click.option("--rows", type=click.IntRange(1), default=5_000_000, show_default=True, help="Rows of the table.")
@_SHORT
@_JSON
def scoring_command(rows: int, short: bool, as_json: bool) -> None:
    """Score a long table into a CSV file, a Parquet file and a table, and say what memory that takes.

    \b
    Example:
      dpsql bench scoring --rows 5000000
    """
    figures = scoring.measure_scoring(500_000 if short else rows)
    show.either(figures, scoring_table(figures), as_json=as_json)


def scoring_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of scoring as a table."""
    shown = Table(title=f"Scoring {figures['rows']:,} rows, a file of {figures['file_mb']:,.0f} MB")
    for word in ("way", "peak MB", f"below {figures['goal_mb']} MB", "CPU s", "wall s"):
        shown.add_column(word, justify="right")
    for cost in figures["cases"]:
        met = "met" if cost["peak_mb"] < figures["goal_mb"] else "missed"
        times = (show.number_text(cost[name], places=1) for name in ("cpu_seconds", "seconds"))
        shown.add_row(cost["way"], f"{cost['peak_mb']:,.0f}", met, *times)
    return shown


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
            *(show.number_text(cost[name]) for name in ("statement_s", "loading_s", "total_s")),
            show.number_text(case["goal"], places=0),
            show.number_text(cost["per_tree_s"]),
            show.number_text(cost["growth_s"]),
            show.number_text(cost["planning_seconds"], places=3),
            "met" if cost["planning_seconds"] < counting.PLANNING_GOAL else "missed",
            f"{cost['sql_characters']:,}",
        )
    return shown


def growth_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of growing trees as a table."""
    shown = Table(title="Training trees that look at the data, CPU time in S, one scan of the same table")
    for word in ("method", "parameters", "rows", "S ms", "total S", "goal S", "peak MB so far"):
        shown.add_column(word, justify="right")
    for cost in figures["cases"]:
        peak = f"{cost['peak_mb']:,.0f}"
        words = ", ".join(f"{name} {value}" for name, value in cost["parameters"].items())
        total, goal = show.number_text(cost["total_s"], places=1), show.number_text(cost["goal"], places=0)
        shown.add_row(cost["method"], words, f"{cost['rows']:,}", f"{1000 * cost['s_seconds']:.1f}", total, goal, peak)
    return shown


def noise_lines(figures: Mapping[str, Any]) -> Table:
    """Return the noise figures as a table."""
    shown = Table(title=f"Exact noise: {figures['draws']:,} draws, CPU seconds")
    for word in ("mechanism", "scale", "dpsql s", "OpenDP s", "OpenDP / dpsql", "goal"):
        shown.add_column(word, justify="right")
    for cost in figures["discrete_laplace"]:
        theirs = (
            "skipped: opendp is not installed" if cost["opendp_seconds"] is None else f"{cost['opendp_seconds']:.2f}"
        )
        ratio = show.number_text(cost["ratio"], places=1)
        shown.add_row("discrete Laplace", cost["scale"], f"{cost['seconds']:.3f}", theirs, ratio, str(noise_speed.GOAL))
    shown.add_row("permute-and-flip of 2", "", f"{figures['permute_and_flip_seconds']:.3f}", "", "", "")
    return shown
