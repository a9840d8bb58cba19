"""Measures how accurate methods and peers are on public tables: repeated 90/10 splits, each written down when done.

One cell is a method, an epsilon and a table. `figures.py` says what its splits add up to.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import stdev
from typing import Any

from examples.benchmarks import peers
from examples.benchmarks.figures import Figure, figure, references
from examples.benchmarks.results import Results, Row
from examples.benchmarks.splits import Outcome, Table, run_split, tables

#: The columns of results before they had more than accuracy: such a file is read on.
OLD_COLUMNS = (
    "method", "epsilon", "parameters", "declared", "set", "split", "rows", "depth", "leaves", "accuracy", "majority",
    "spent",
)  # fmt: skip
COLUMNS = (*OLD_COLUMNS, "balanced_accuracy", "auc", "log_loss", "brier", "seconds")
#: `--splits auto`: ten splits come first; their spread says how many bring the standard error to one point.
FEWEST, MOST, WANTED_ERROR = 10, 100, 1.0


@dataclass(frozen=True)
class Question:
    """What is asked of every split: the method or peer, epsilon as text, its parameters, what the schema declares."""

    method: str
    epsilon: str
    parameters: tuple[tuple[str, Any], ...] = ()
    declare_rows: bool = False
    declare_nulls: bool = False
    labelled: int = 100
    widen: float = 1
    above: bool = False

    @property
    def declaration(self) -> str:
        """What is known beyond domains: rows, nulls, both or nothing; how many labels there are, how wide ranges."""
        few = [] if self.labelled == 100 else [f"{self.labelled}%labelled"]
        wide = [] if self.widen == 1 else [f"{self.widen:g}xwide" + "-above" * self.above]
        return " ".join(["rows"] * self.declare_rows + ["nulls"] * self.declare_nulls + few + wide)

    def key(self, name: str, split: int) -> dict[str, object]:
        """Return what names one split of one table in the results."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "parameters": " ".join(f"{name}={value}" for name, value in self.parameters),
            "declared": self.declaration,
            "set": name,
            "split": split,
        }


@dataclass(frozen=True)
class Task:
    """One split to run."""

    question: Question
    name: str
    split: int
    peer_folder: Path


def measure(
    folder: Path,
    all_tables: Sequence[Table],
    questions: Sequence[Question],
    *,
    splits: int | None = None,
    first: int = 0,
    results: Results | None = None,
    jobs: int = 1,
    progress: Callable[[int, int, str], None] = lambda done, all_, what: None,
    reference: str | None = None,
    peer_folder: Path = Path(),
    run: bool = True,
) -> list[Figure]:
    """Return one figure for each question and table; `splits` None means as many as `enough` says.

    Splits are numbered from `first` on: rules that were chosen on some numbers are to be judged on others. What
    `results` already has is not run again; with `run` False nothing is, and cells without results are left out.
    `reference` names another method to compare with than the own one. A peer is not asked about tables that it cannot
    learn from; `peer_folder` is its environment.
    """
    results = Results(None, COLUMNS) if results is None else results
    cells = [
        (question, table) for question in questions for table in all_tables if not peers.unfit(question.method, table)
    ]
    split_counts = dict.fromkeys(range(len(cells)), splits or (FEWEST if run else MOST))
    for stage in range((1 if splits else 2) if run else 0):
        if stage:
            split_counts = {
                place: enough(accuracies(results, *cell, range(first, first + FEWEST)))
                for place, cell in enumerate(cells)
            }
        tasks = [
            Task(question, table.name, split, peer_folder)
            for place, (question, table) in enumerate(cells)
            for split in range(first, first + split_counts[place])
            if results.find(question.key(table.name, split)) is None
        ]
        _run(folder, all_tables, tasks, results, jobs, progress)
    return [
        summary(rows, *cell, reference=reference)
        for place, cell in enumerate(cells)
        if (rows := _rows(results, *cell, range(first, first + split_counts[place])))
    ]


def enough(accuracies: Sequence[float]) -> int:
    """Return how many splits bring the standard error to one point, by the spread of the first ones: from 10 to 100.

    >>> enough([70, 71, 70, 72]), enough([60, 70, 65, 72]), enough([40, 80])
    (10, 29, 100)
    """
    return min(MOST, max(FEWEST, math.ceil((stdev(accuracies) / WANTED_ERROR) ** 2)))


def accuracies(results: Results, question: Question, table: Table, splits: Iterable[int]) -> list[float]:
    """Return the accuracies of some splits of a cell, in %."""
    return [100 * float(row["accuracy"]) for row in _rows(results, question, table, splits)]


def summary(rows: Sequence[Row], question: Question, table: Table, *, reference: str | None) -> Figure:
    """Return a cell's figure from its splits, beside the reference that is known for it."""
    reference_figure = references().get((reference or question.method, float(question.epsilon), table.name))
    return figure(question.method, question.epsilon, table.name, rows, size=table.rows, reference=reference_figure)


def _rows(results: Results, question: Question, table: Table, splits: Iterable[int]) -> list[Row]:
    rows = (results.find(question.key(table.name, split)) for split in splits)
    return [row for row in rows if row is not None]


def _run(
    folder: Path,
    all_tables: Sequence[Table],
    tasks: Sequence[Task],
    results: Results,
    jobs: int,
    progress: Callable[[int, int, str], None],
) -> None:
    """Run tasks and write each outcome down as soon as it is there."""
    outcomes = (
        _parallel(folder, tasks, jobs) if jobs > 1 else _in_turn({table.name: table for table in all_tables}, tasks)
    )
    for done, (task, outcome) in enumerate(outcomes, 1):
        figures = {name: value for name, value in asdict(outcome).items() if value is not None}
        results.add({**task.question.key(task.name, task.split), **figures})
        said = f"{task.question.method} {task.question.epsilon} {task.name} split {task.split}: {outcome.accuracy:.1%}"
        progress(done, len(tasks), said)


def _in_turn(by_name: Mapping[str, Table], tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
    for task in tasks:
        yield task, _outcome(by_name[task.name], task)


def _parallel(folder: Path, tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks in processes of their own, which read the tables themselves. Started anew: a fork may copy locks."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        submitted = {pool.submit(partial(_outcome_in, str(folder)), task): task for task in tasks}
        try:
            for future in as_completed(submitted):
                yield submitted[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # whoever stops or fails does not wait for what is still to come


def _outcome_in(folder: str, task: Task) -> Outcome:
    return _outcome(_table(folder, task.name), task)


@cache
def _table(folder: str, name: str) -> Table:
    return tables(Path(folder), [name])[0][0]


def _outcome(table: Table, task: Task) -> Outcome:
    question = task.question
    if question.method in peers.NAMES:
        return peers.run_peer(
            table,
            task.split,
            peer=question.method,
            epsilon=question.epsilon,
            folder=task.peer_folder,
            labelled=question.labelled,
            widen=question.widen,
        )
    return run_split(
        table,
        task.split,
        method=question.method,
        epsilon=question.epsilon,
        parameters=dict(question.parameters),
        declare_rows=question.declare_rows,
        declare_nulls=question.declare_nulls,
        labelled=question.labelled,
        widen=question.widen,
        above=question.above,
    )
