"""The command `readers` of `python -m examples.benchmarks`: how near the reader that `auto` picks is to the best one.

A run of `auto` releases counts, from which many readers follow for free; one of them is picked privately. Here all
readers of a run are measured on the same held-out rows, so that only the pick is judged, not the noise of the run. Half
of the rows are held out: the best of twenty readers on a few rows of a rare class is the luckiest one. So the best is
also told without luck: it is chosen on one half of the held-out rows and measured on the other, and vice versa.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Shown

from dpsql.api.database import connect
from dpsql.bench import show
from dpsql.bench.sample_tables import MADE_UP, load_sample
from dpsql.errors import UsageError
from dpsql.methods.auto import auto
from dpsql.methods.auto.mixture_list import MixtureParts, choices, mixture_forest, reader_forest
from dpsql.methods.base import Trained
from dpsql.models import figures
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.objectives import AS_IT_IS, thin
from examples.benchmarks.splits import Table, class_numbers, create, declare_schema, tables

#: Tables of two classes: public ones and made-up ones.
SETS = "adult,magic04,mushroom,census,syn5d:2,syn10d:3,syn15d:1"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReaderFigure:
    """Mean AUC over the runs of one table: of the picked reader, and of the best ones that the same releases allow.

    `best` is the best reader of each run, told without luck; `luckiest` the one with the highest AUC on the held-out
    rows themselves; `fixed` is the one reader with the highest mean over all runs of the table.
    """

    set: str
    rarer: str
    epsilon: str
    runs: int
    picked: float
    best: float
    luckiest: float
    fixed: float


@click.command()
@DATA_OPTION
@click.option("--sets", default=SETS, show_default=True, help="Tables of two classes, separated by commas.")
@click.option("--rarer", default="0.12,0.05", show_default=True,
              help=f"Shares of the rarer class; {AS_IT_IS}: the table as it is.")  # fmt: skip
@click.option("--epsilon", "epsilons", default="0.2,1", show_default=True, help="What each run may cost.")
@click.option("--splits", type=click.IntRange(1), default=6, show_default=True, help="Number of half-and-half splits.")
@click.option("--first-split", type=click.IntRange(0), default=100, show_default=True, help="The first split's number.")
@click.option("--objective", default="usual", show_default=True, help="The objective of the runs.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def readers(
    data: Path,
    sets: str,
    rarer: str,
    epsilons: str,
    splits: int,
    first_split: int,
    objective: str,
    as_json: bool,
) -> None:
    """Compare the AUC of the reader that auto picks with that of the best reader of the same releases.

    \b
    Example:
      python -m examples.benchmarks readers --sets census,syn10d:3 --rarer 0.12

    Noise has no seed: figures differ a little each time. Runs too small for a choice of readers are left out.
    """
    names = sets.split(",")
    available, missing = tables(data, [name for name in names if name not in MADE_UP])
    available += [_made_up(name) for name in names if name in MADE_UP]
    for name, why in missing.items():
        click.echo(f"{name} is skipped: {why}", err=True)
    if not available:
        raise UsageError("none of the tables can be had.", hint="--data FOLDER, or --sets census")
    with Console(stderr=True).status("") as status:
        found = measure_readers(
            available,
            rarer.split(","),
            epsilons.split(","),
            splits=range(first_split, first_split + splits),
            objective=objective,
            progress=lambda what: status.update(what) if sys.stderr.isatty() else None,
        )
    means = mean_figures(found)
    plain = {"figures": [asdict(figure) for figure in found], "means": [asdict(figure) for figure in means]}
    show.either(plain, readers_table([*found, *means]), as_json=as_json)


def _made_up(name: str) -> Table:
    sample = load_sample(name)
    return Table(name, sample.schema, sample.frame)


def measure_readers(
    some_tables: Sequence[Table],
    shares: Sequence[str],
    epsilons: Sequence[str],
    *,
    splits: Sequence[int],
    objective: str = "usual",
    progress: Callable[[str], None] = lambda what: None,
) -> list[ReaderFigure]:
    """Return a figure for each table, share of the rarer class and epsilon at which readers could be picked."""
    found = []
    for table in some_tables:
        for share in shares:
            thinned = table if share == AS_IT_IS else thin(table, share)
            for epsilon in epsilons:
                runs = []
                for split in splits:
                    progress(f"{table.name} {share} epsilon {epsilon}: split {split}")
                    runs.append(run_readers(thinned, split, epsilon=epsilon, objective=objective))
                measured = [run for run in runs if run is not None]
                if measured:
                    found.append(_figure(table.name, share, epsilon, measured))
    return found


@dataclass(frozen=True, eq=False)
class ReaderRun:
    """The AUC of each reader of a run: on all held-out rows, and on each half of them; which reader was picked."""

    names: tuple[str, ...]
    on_all: Floats
    on_halves: tuple[Floats, Floats]
    picked: int


def run_readers(table: Table, split: int, *, epsilon: object, objective: str) -> ReaderRun | None:
    """Train on half of a table and measure all readers on the other; None where there were no readers to pick from."""
    out = np.random.default_rng(split).permutation(table.rows) < table.rows // 2
    train, test = table.frame[~out], table.frame[out]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        create(path, train=train)
        with connect(path) as db, recorded_mixtures() as seen:
            db.register("train", declare_schema(table.schema), cap=epsilon)
            model = db.train("train", epsilon=epsilon, method="auto", seed=split, objective=objective)
    if not seen:
        return None
    parts, strength, reader = seen["parts"], seen["strength"], seen["reader"]
    offered = choices(parts.kinds, strength)
    truth = class_numbers(test[table.schema["label"]], model.classes)
    scores = [replace(model, released=reader_forest(parts, choice)).shares(test).to_numpy()[:, 1] for choice in offered]
    is_first = _halves(truth, split)

    def areas(rows: NDArray[np.bool_]) -> Floats:
        return np.array([_auc(truth[rows], score[rows]) for score in scores])

    picked = offered.index((reader["naive_bayes"], reader["trees"], reader["kind"]))
    names = tuple(f"{a}/{b} {kind}".strip() for a, b, kind in offered)
    known = truth >= 0
    return ReaderRun(names, areas(known), (areas(known & is_first), areas(known & ~is_first)), picked)


@contextmanager
def recorded_mixtures() -> Iterator[dict[str, Any]]:
    """Record what the runs inside mix: the parts of their mixtures, their strength, and the reader that was picked."""
    seen: dict[str, Any] = {}

    def record(session: Any, parts: MixtureParts, **asked: Any) -> Trained:
        trained = mixture_forest(session, parts, **asked)
        seen.update(parts=parts, strength=asked["strength"], reader=trained.facts["reader"])
        return trained

    with patch.object(auto, "mixture_forest", record):
        yield seen


def _halves(truth: NDArray[np.int64], split: int) -> NDArray[np.bool_]:
    """Return which rows are in the first of two halves, each with half of the rows of each class."""
    chance, is_first = np.random.default_rng([split, 1]), np.zeros(len(truth), bool)
    for number in np.unique(truth):
        rows = chance.permutation(np.flatnonzero(truth == number))
        is_first[rows[: len(rows) // 2]] = True
    return is_first


def _auc(truth: NDArray[np.int64], score: Floats) -> float:
    values, place = np.unique(score, return_inverse=True)
    positives = np.bincount(place, truth == 1, len(values)).astype(float)
    return figures.auc(positives, np.bincount(place, minlength=len(values)) - positives)


def _figure(name: str, share: str, epsilon: str, runs: Sequence[ReaderRun]) -> ReaderFigure:
    without_luck = [
        (run.on_halves[1][run.on_halves[0].argmax()] + run.on_halves[0][run.on_halves[1].argmax()]) / 2 for run in runs
    ]
    everywhere = set(runs[0].names).intersection(*(run.names for run in runs))
    by_reader: Mapping[str, float] = {
        reader: fmean(run.on_all[run.names.index(reader)] for run in runs) for reader in everywhere
    }
    return ReaderFigure(
        name,
        share,
        epsilon,
        len(runs),
        fmean(run.on_all[run.picked] for run in runs),
        fmean(without_luck),
        fmean(run.on_all.max() for run in runs),
        max(by_reader.values()),
    )


def mean_figures(found: Sequence[ReaderFigure]) -> list[ReaderFigure]:
    """Return the mean over all tables for each epsilon; each table counts the same."""
    means = []
    for epsilon in dict.fromkeys(figure.epsilon for figure in found):
        own = [figure for figure in found if figure.epsilon == epsilon]
        columns = ("picked", "best", "luckiest", "fixed")
        values = (fmean(getattr(figure, column) for figure in own) for column in columns)
        means.append(ReaderFigure("mean", "", epsilon, sum(figure.runs for figure in own), *values))
    return means


def readers_table(found: Sequence[ReaderFigure]) -> Shown:
    """Return the figures as a table, the last column with what the pick loses against the best."""
    shown = Shown(title="AUC of the picked reader, and of the best ones of the same releases")
    headings = ("set", "rarer", "epsilon", "runs", "picked", "best", "luckiest", "best fixed", "picked − best")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "set" else "right")
    for figure in found:
        areas = (figure.picked, figure.best, figure.luckiest, figure.fixed)
        shown.add_row(
            figure.set,
            figure.rarer,
            figure.epsilon,
            str(figure.runs),
            *(show.number_text(area, places=3) for area in areas),
            f"{figure.picked - figure.best:+.3f}",
        )
    return shown
