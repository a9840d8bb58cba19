"""The command `matrix`: strategies, cost and the paper's figures of the matrix random forest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dpsql.bench import show
from dpsql.errors import UsageError
from dpsql.trees.strategies.optimize import EFFORT, KINDS
from examples.benchmarks import accuracy as measuring
from examples.benchmarks import matrix as measured
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.plot import COLOURS, LEAST_HEIGHT, MARKS, check
from examples.benchmarks.results import Results
from examples.benchmarks.splits import tables

_FILE = click.Path(path_type=Path, dir_okay=False)
WHATS = ("errors", "figures", "cost")


@click.command()
@click.option("--what", type=click.Choice(WHATS), default="errors", show_default=True, help="What to measure.")
@DATA_OPTION
@click.option("--sets", help="Tables, separated by commas [default: those of the paper].")
@click.option("--splits", type=click.IntRange(1), default=10, show_default=True, help="Splits of each point.")
@click.option("--draws", type=click.IntRange(1), default=1000, show_default=True, help="Draws of noise (errors).")
@click.option("--effort", type=click.IntRange(1), default=EFFORT, show_default=True, help="Work for each strategy.")
@click.option("--csv", "file", type=_FILE, help="Keep every split here; none is run twice (figures).")
@click.option("--plot", type=_FILE, help="Draw the figures into this PNG, SVG or PDF file.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Splits to run at a time.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def matrix(
    what: str,
    data: Path,
    sets: str | None,
    splits: int,
    draws: int,
    effort: int,
    file: Path | None,
    plot: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Measure the matrix random forest: errors of strategies, its figures run again, its cost.

    \b
    Example:
      python -m examples.benchmarks matrix --what errors
      python -m examples.benchmarks matrix --what figures --splits 10 --csv matrix.csv --plot matrix.png --jobs 2

    errors: each kind of strategy against asking for every cell, and the proved error against noise that is drawn.
    figures: figures 2 to 4 of Tajima et al. 2025. cost: seconds for strategy, counts and noise.
    """
    if plot is not None:
        if what != "figures":
            raise UsageError("only figures are drawn.", hint="--what figures, or leave out --plot")
        check(plot)
    available, missing = tables(data, sets.split(",") if sets else list(measured.SETTINGS))
    for name, why in missing.items():
        click.echo(f"{name} is skipped: {why}", err=True)
    for table in available:
        if table.name not in measured.SETTINGS:
            click.echo(f"{table.name} is skipped: the paper has no settings for it", err=True)
    measurable = [table for table in available if table.name in measured.SETTINGS]
    if not measurable:
        raise UsageError("none of the tables can be had.", hint=f"--sets {','.join(list(measured.SETTINGS)[:3])}")
    if what == "errors":
        rows = [row for table in measurable for row in measured.errors(table, draws=draws, effort=effort)]
        show.either({"errors": rows}, _errors(rows), as_json=as_json)
    elif what == "cost":
        costs = [{"set": table.name, **measured.cost(table, "1")} for table in measurable]
        show.either({"cost": costs}, _table("Cost, seconds", costs), as_json=as_json)
    else:
        lines = _figures(data, measurable, splits, Results(file, measuring.COLUMNS), jobs)
        if plot is not None:
            draw(plot, lines)
        show.either({"figures": lines}, _table("Figures", lines), as_json=as_json)


def _figures(data: Path, measurable: Sequence[Any], splits: int, results: Results, jobs: int) -> list[dict[str, Any]]:
    """Return one line for each point of each panel."""
    by_name = {table.name: table for table in measurable}
    lines: list[dict[str, Any]] = []
    for panel in measured.panels(list(by_name)):
        for line, points in panel.points.items():
            for along, question in points:
                (figure,) = measuring.measure(
                    data, [by_name[panel.table]], [question], splits=splits, results=results, jobs=jobs
                )
                error = figure.standard_error or 0.0
                lines.append({"panel": panel.title, "line": line, "along": panel.along, "at": along,
                              "mean": figure.mean, "standard_error": error})  # fmt: skip
    if "car" in by_name:
        for point in measured.queries(by_name["car"], measured.QUERIES, splits=splits):
            lines.append({"panel": "3b: car, epsilon 2", "line": "batch prediction", "along": "queries",
                          "at": point["queries"], "mean": point["mean"],
                          "standard_error": point["standard_error"]})  # fmt: skip
    return lines


def draw(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a picture: a panel for each part of a figure, a line with error bars for each way."""
    from matplotlib.figure import Figure as Canvas

    titles, names = (list(dict.fromkeys(point[key] for point in lines)) for key in ("panel", "line"))
    across = min(4, len(titles))
    down = -(-len(titles) // across)
    picture = Canvas(figsize=(3.1 * across, 2.6 * down + 0.6), layout="constrained")
    grid = picture.subplots(down, across, squeeze=False)
    for axes, title in zip(grid.flat, titles, strict=False):
        for place, name in enumerate(names):
            points = [point for point in lines if (point["panel"], point["line"]) == (title, name)]
            if points:
                axes.errorbar([point["at"] for point in points], [point["mean"] for point in points],
                              yerr=[point["standard_error"] for point in points], label=name, capsize=2,
                              color=COLOURS[place % len(COLOURS)], marker=MARKS[place % len(MARKS)],
                              markersize=4)  # fmt: skip
        own = [point for point in lines if point["panel"] == title]
        ticks = sorted({point["at"] for point in own})
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        lower, upper = axes.get_ylim()
        missing = max(0.0, LEAST_HEIGHT - (upper - lower)) / 2
        axes.set_ylim(lower - missing, upper + missing)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(own[0]["along"], fontsize=9)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.tick_params(labelsize=8)
    for axes in list(grid.flat)[len(titles) :]:
        axes.set_axis_off()
    for row in grid:
        row[0].set_ylabel("accuracy, %", fontsize=9)
    shown = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    picture.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize=9)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(file, dpi=110)


def _errors(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(title="Error of each strategy over that of asking for every cell")
    for name in ("set", "for", "cells", "best", "error", "drawn / proved", "CPU s", *KINDS):
        shown.add_column(name, justify="left" if name in ("set", "for", "best") else "right")
    for row in rows:
        ratio, measured_ratio = (show.number_text(row[name], places=3) for name in ("ratio", "measured_to_proved"))
        ratios = (show.number_text(row["ratios"][kind], places=3) for kind in KINDS)
        seconds = show.number_text(row["cpu_seconds"], places=1)
        shown.add_row(
            row["set"], row["workload"], str(row["cells"]), row["best"], ratio, measured_ratio, seconds, *ratios
        )
    return shown


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(title=title)
    for name in rows[0]:
        shown.add_column(name.replace("_", " "))
    for row in rows:
        shown.add_row(*(show.number_text(value) if isinstance(value, float) else str(value) for value in row.values()))
    return shown
