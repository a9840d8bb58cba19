"""Runs an experiment's cells that are not yet in its results, and writes each down as soon as it is done."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from examples.benchmarks.results import Results
from examples.papers import sets
from examples.papers.experiment import Experiment, RunSettings


def run(experiment: Experiment, settings: RunSettings, *, jobs: int = 1) -> int:
    """Run what is missing, in `jobs` processes; return how many cells were run."""
    results = results_of(experiment, settings)
    todo = [cell for cell in possible(experiment, settings) if results.find(_key(experiment, cell)) is None]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(experiment.name, total=len(todo))
        for cell, figures in outcomes(experiment, settings, todo, jobs):
            results.add({**cell, **figures})
            progress.advance(task)
    return len(todo)


def results_of(experiment: Experiment, settings: RunSettings) -> Results:
    """Return the experiment's results, from its CSV file."""
    return Results(settings.file(experiment, "csv"), experiment.columns)


def possible(experiment: Experiment, settings: RunSettings) -> list[dict[str, Any]]:
    """Return the cells whose tables can be had; each table that cannot is named on stderr."""
    cells = list(experiment.cells(settings))
    names = dict.fromkeys(cell["set"] for cell in cells if "set" in cell)
    gone = {name: why for name in names if (why := sets.why_missing(name, settings.data))}
    for name, why in gone.items():
        print(f"{experiment.name}: {name} is skipped, {why}", file=sys.stderr)
    return [cell for cell in cells if cell.get("set") not in gone]


def outcomes(
    experiment: Experiment, settings: RunSettings, cells: Sequence[dict[str, Any]], jobs: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each cell with its figures, in order where there is one job, as they come where there are more."""
    if jobs == 1:
        for cell in cells:
            yield cell, dict(experiment.run(cell, settings))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy DuckDB's threads half
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {pool.submit(run_cell, experiment.name, cell, settings): cell for cell in cells}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def run_cell(name: str, cell: dict[str, Any], settings: RunSettings) -> dict[str, Any]:
    """Run one cell of an experiment in another process."""
    from examples.papers.catalogue import EXPERIMENTS

    return dict(EXPERIMENTS[name].run(cell, settings))


def _key(experiment: Experiment, cell: dict[str, Any]) -> dict[str, Any]:
    return {name: cell[name] for name in experiment.keys}
