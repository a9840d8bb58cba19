"""Measures how accurate methods are on public tables: repeated 90/10 splits, beside what a reference reached.

One cell is a method, an epsilon and a table. Its figure is the mean over its splits, with the standard error of that
mean. A difference from the reference of up to 2.5 points (4 for a table of fewer than 1000 rows) is in band; one that
two standard errors could bring into the band is within noise.
"""

from __future__ import annotations

import csv
import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from dpsql.bench.results import Results, Row
from dpsql.bench.splits import Outcome, Table, run_split, tables

COLUMNS = (
    "method", "epsilon", "parameters", "declared", "set", "split", "rows", "depth", "leaves", "accuracy", "majority",
    "spent",
)  # fmt: skip
#: `--splits auto`: ten splits come first; their spread says how many bring the standard error to one point.
FEWEST, MOST, WANTED_ERROR = 10, 100, 1.0
SMALL, BAND, SMALL_BAND = 1000, 2.5, 4.0


@dataclass(frozen=True)
class Question:
    """What is asked of every split: the method, epsilon as text, its parameters, what the schema declares."""

    method: str
    epsilon: str
    parameters: tuple[tuple[str, Any], ...] = ()
    declare_rows: bool = False
    declare_nulls: bool = False
    labelled: int = 100

    @property
    def declared(self) -> str:
        """What is known beyond domains: rows, nulls, both or nothing; and how many rows of 100 have a label."""
        few = [] if self.labelled == 100 else [f"{self.labelled}%labelled"]
        return " ".join(["rows"] * self.declare_rows + ["nulls"] * self.declare_nulls + few)

    def key(self, name: str, split: int) -> dict[str, object]:
        """Return what names one split of one table in the results."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "parameters": " ".join(f"{name}={value}" for name, value in self.parameters),
            "declared": self.declared,
            "set": name,
            "split": split,
        }


@dataclass(frozen=True)
class Task:
    """One split to run."""

    question: Question
    name: str
    split: int


@dataclass(frozen=True)
class Figure:
    """A cell: accuracies in %, difference and band in points; what is not known is None."""

    method: str
    epsilon: str
    set: str
    splits: int
    mean: float
    sd: float | None
    standard_error: float | None
    majority: float
    reference: float | None
    difference: float | None
    band: float
    in_band: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain values."""
        return asdict(self)


def measure(
    folder: Path,
    found: Sequence[Table],
    questions: Sequence[Question],
    *,
    splits: int | None = None,
    results: Results | None = None,
    jobs: int = 1,
    progress: Callable[[int, int, str], None] = lambda done, all_, what: None,
    reference: str | None = None,
) -> list[Figure]:
    """Return one figure for each question and table; `splits` None means as many as `enough` says.

    What `results` already has is not run again. `reference` names another method to compare with than the own one.
    """
    results = results or Results(None, COLUMNS)
    cells = [(question, table) for question in questions for table in found]
    wanted = dict.fromkeys(range(len(cells)), splits or FEWEST)
    for stage in range(1 if splits else 2):
        if stage:
            wanted = {place: enough(accuracies(results, *cell, FEWEST)) for place, cell in enumerate(cells)}
        tasks = [
            Task(question, table.name, split)
            for place, (question, table) in enumerate(cells)
            for split in range(wanted[place])
            if results.find(question.key(table.name, split)) is None
        ]
        _run(folder, found, tasks, results, jobs, progress)
    return [summary(results, *cell, wanted[place], reference=reference) for place, cell in enumerate(cells)]


def enough(accuracies: Sequence[float]) -> int:
    """Return how many splits bring the standard error to one point, by the spread of the first ones: from 10 to 100.

    >>> enough([70, 71, 70, 72]), enough([60, 70, 65, 72]), enough([40, 80])
    (10, 29, 100)
    """
    return min(MOST, max(FEWEST, math.ceil((stdev(accuracies) / WANTED_ERROR) ** 2)))


def accuracies(results: Results, question: Question, table: Table, splits: int) -> list[float]:
    """Return the accuracies of a cell's first splits, in %."""
    return [100 * float(row["accuracy"]) for row in _rows(results, question, table, splits)]


def summary(results: Results, question: Question, table: Table, splits: int, *, reference: str | None) -> Figure:
    """Return a cell's figure from its first splits."""
    found = accuracies(results, question, table, splits)
    sd = stdev(found) if len(found) > 1 else None
    error = None if sd is None else sd / math.sqrt(len(found))
    known = references().get((reference or question.method, float(question.epsilon), table.name))
    difference = None if known is None else mean(found) - known
    band = SMALL_BAND if table.rows < SMALL else BAND
    return Figure(
        method=question.method,
        epsilon=question.epsilon,
        set=table.name,
        splits=len(found),
        mean=mean(found),
        sd=sd,
        standard_error=error,
        majority=100 * mean(float(row["majority"]) for row in _rows(results, question, table, splits)),
        reference=known,
        difference=difference,
        band=band,
        in_band=None if difference is None else verdict(difference, error, band),
    )


def verdict(difference: float, standard_error: float | None, band: float) -> str:
    """Say whether a difference is in the band: yes, no, or within noise where two standard errors reach it.

    >>> verdict(-2, 0.5, 2.5), verdict(3, 0.5, 2.5), verdict(-4, 0.5, 2.5), verdict(-4, None, 2.5)
    ('yes', 'within noise', 'no', 'one split')
    """
    if abs(difference) <= band:
        return "yes"
    if standard_error is None:
        return "one split"
    return "within noise" if abs(difference) - 2 * standard_error <= band else "no"


@cache
def references() -> Mapping[tuple[str, float, str], float]:
    """Return what reference implementations reached, in %, by method, epsilon and table (from ACCURACY.md)."""
    with (Path(__file__).parent / "reference.csv").open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], float(row["epsilon"]), row["set"]): float(row["accuracy"]) for row in csv.DictReader(file)
        }


def _rows(results: Results, question: Question, table: Table, splits: int) -> list[Row]:
    found = (results.find(question.key(table.name, split)) for split in range(splits))
    return [row for row in found if row is not None]


def _run(
    folder: Path,
    found: Sequence[Table],
    tasks: Sequence[Task],
    results: Results,
    jobs: int,
    progress: Callable[[int, int, str], None],
) -> None:
    """Run tasks and write each outcome down as soon as it is there."""
    known = {table.name: table for table in found}
    outcomes = _parallel(folder, tasks, jobs) if jobs > 1 else _in_turn(known, tasks)
    for done, (task, outcome) in enumerate(outcomes, 1):
        results.add({**task.question.key(task.name, task.split), **asdict(outcome)})
        said = f"{task.question.method} {task.question.epsilon} {task.name} split {task.split}: {outcome.accuracy:.1%}"
        progress(done, len(tasks), said)


def _in_turn(known: Mapping[str, Table], tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
    for task in tasks:
        yield task, _outcome(known[task.name], task)


def _parallel(folder: Path, tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks in processes of their own, which read the tables themselves. Started anew: a fork may copy locks."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        asked = {pool.submit(partial(_outcome_in, str(folder)), task): task for task in tasks}
        for future in as_completed(asked):
            yield asked[future], future.result()


def _outcome_in(folder: str, task: Task) -> Outcome:
    return _outcome(_table(folder, task.name), task)


@cache
def _table(folder: str, name: str) -> Table:
    return tables(Path(folder), [name])[0][0]


def _outcome(table: Table, task: Task) -> Outcome:
    asked = task.question
    return run_split(
        table,
        task.split,
        method=asked.method,
        epsilon=asked.epsilon,
        parameters=dict(asked.parameters),
        declare_rows=asked.declare_rows,
        declare_nulls=asked.declare_nulls,
        labelled=asked.labelled,
    )
