"""What an experiment is: a grid of cells, how one cell is run, what the paper says about it, how it is drawn.

A new experiment is one `Experiment(...)` in its paper's file. Its `run` takes a cell, a mapping such as
`{"set": "nursery", "epsilon": 0.5, "split": 3}`, and returns the figures of that cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

Cell = Mapping[str, Any]
Row = Mapping[str, str]
#: Our figure in words, and whether the paper's claim holds; None where too little was run to say.
Verdict = tuple[str, bool | None]


@dataclass(frozen=True)
class RunSettings:
    """What the command line asks for: where the tables are, where results go, how much to run."""

    data: Path
    results: Path
    splits: int = 10
    short: bool = False

    def file(self, experiment: Experiment, ending: str) -> Path:
        """Return the file of an experiment's results or picture; short runs have their own."""
        return self.results / f"{experiment.name}{'-short' if self.short else ''}.{ending}"


@dataclass(frozen=True)
class Given:
    """A figure that the paper's text gives, the cells that it stands beside, and the place in the paper."""

    where: Mapping[str, object]
    value: float
    place: str

    def fits(self, group: Mapping[str, str]) -> bool:
        """Whether it stands beside this group of results."""
        return all(group.get(name) == str(value) for name, value in self.where.items())


class Summary:
    """The results of an experiment, to be asked for means of one figure."""

    def __init__(self, rows: Sequence[Row], figure: str) -> None:
        self.rows = rows
        self.figure = figure

    def values(self, **where: object) -> list[float]:
        """Return the figure of every result with these values in these columns."""
        conditions = {name: str(value) for name, value in where.items()}.items()
        return [float(row[self.figure]) for row in self.rows if conditions <= row.items()]

    def mean(self, **where: object) -> float:
        """Return the mean of those, or NaN where there is none."""
        return fmean(self.values(**where) or [math.nan])

    def spread(self, **where: object) -> float:
        """Return their standard deviation; 0 where there are fewer than two."""
        values = self.values(**where)
        return stdev(values) if len(values) > 1 else 0.0

    def seen(self, column: str) -> list[str]:
        """Return the values of a column in the order in which they come."""
        return list(dict.fromkeys(row[column] for row in self.rows))

    def gains(self, over: str, better: Mapping[str, object], worse: Mapping[str, object]) -> dict[str, float]:
        """Return, for each value of a column, the mean of one side less the mean of the other; whole pairs only."""
        differences = {
            value: self.mean(**{over: value}, **better) - self.mean(**{over: value}, **worse)
            for value in self.seen(over)
        }
        return {value: gain for value, gain in differences.items() if not math.isnan(gain)}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper about its figure, in our words, and how our results judge it."""

    place: str
    text: str
    judge: Callable[[Summary], Verdict]


@dataclass(frozen=True)
class Picture:
    """How results are drawn: one panel for each value of `panel`, one colour for each of `hue`.

    `kind` is "boxes", "lines" (means with one standard deviation) or "bars". `names` replaces values on the x axis.
    """

    kind: str
    x: str
    x_label: str
    y_label: str
    panel: str | None = None
    hue: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper, to be run again.

    `grid` has the values of every column that names a cell; every combination is run, `most_splits` times at most.
    `short` replaces some of them for a run of seconds. `figures` are the columns that `run` returns; the first is the
    one that is shown and drawn, those in `also` are shown beside it. `exact` says in words what the experiment looks at
    that is not private, if anything.
    """

    name: str
    paper: str
    place: str
    title: str
    grid: Mapping[str, Sequence[object]]
    short: Mapping[str, Sequence[object]]
    run: Callable[[Cell, RunSettings], Mapping[str, object]]
    figures: tuple[str, ...]
    picture: Picture
    given: Sequence[Given] = ()
    claims: Sequence[Claim] = ()
    also: tuple[str, ...] = ()
    exact: str = ""
    most_splits: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name a cell."""
        return (*self.grid, "split")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the results."""
        return (*self.keys, *self.figures)

    def cells(self, settings: RunSettings) -> Iterator[dict[str, Any]]:
        """Yield the cells to run, one split after the other, so that a run that is stopped is even."""
        grid = {**self.grid, **self.short} if settings.short else self.grid
        splits = 1 if settings.short else min(settings.splits, self.most_splits or settings.splits)
        for split in range(splits):
            for values in product(*grid.values()):
                yield {**dict(zip(grid, values, strict=True)), "split": split}


def points(gains: Mapping[str, float]) -> str:
    """Return gains in words: the least and the most, with the name of each.

    >>> points({"adult": 3.5, "claves": -2.54})
    '-2.5 (claves) to +3.5 (adult) points'
    """
    if not gains:
        return "not run"
    least, most = min(gains, key=lambda name: gains[name]), max(gains, key=lambda name: gains[name])
    return f"{gains[least]:+.1f} ({least}) to {gains[most]:+.1f} ({most}) points"
