"""What splits add up to: one figure for each method, epsilon and table, beside a reference and beside the peers.

A figure is the mean over the splits, with the standard error of that mean. A difference from the reference of up to
2.5 points (4 for a table of fewer than 1000 rows) is in band. The goal is the reference less 1 point (3 for a small
table). What two standard errors could change is within noise.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import fmean, mean, stdev
from typing import Any

from examples.benchmarks.results import Row

SMALL, BAND, SMALL_BAND = 1000, 2.5, 4.0
#: How far below the reference a figure may stay and still reach it.
SHORT, SMALL_SHORT = 1.0, 3.0
#: The columns of a file of figures; accuracies in %.
COLUMNS = (
    "method", "epsilon", "set", "splits", "mean", "standard_error", "majority", "balanced_accuracy", "auc", "log_loss",
    "brier", "seconds",
)  # fmt: skip
_MORE = ("balanced_accuracy", "auc", "log_loss", "brier", "seconds")


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
    reference: float | None = None
    difference: float | None = None
    band: float = BAND
    in_band: str | None = None
    reached: str | None = None
    balanced_accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Mean:
    """The mean over tables of one method and epsilon, beside the reference's mean over the same tables."""

    method: str
    epsilon: str
    sets: int
    mean: float
    reference: float | None
    difference: float | None
    reached: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the mean as plain values."""
        return asdict(self)


def figure(method: str, epsilon: str, name: str, rows: Sequence[Row], *, size: int, reference: float | None) -> Figure:
    """Return a cell's figure from its splits; `size` is how many rows the table has."""
    accuracies = [100 * float(row["accuracy"]) for row in rows]
    sd = stdev(accuracies) if len(accuracies) > 1 else None
    error = None if sd is None else sd / math.sqrt(len(accuracies))
    difference = None if reference is None else mean(accuracies) - reference
    band, short = (SMALL_BAND, SMALL_SHORT) if size < SMALL else (BAND, SHORT)
    return Figure(
        method=method,
        epsilon=epsilon,
        set=name,
        splits=len(accuracies),
        mean=mean(accuracies),
        sd=sd,
        standard_error=error,
        majority=100 * mean(float(row["majority"]) for row in rows),
        reference=reference,
        difference=difference,
        band=band,
        in_band=None if difference is None else verdict(difference, error, band),
        reached=None if difference is None else verdict(min(difference, 0.0), error, short),
        **_more(rows),
    )


def _more(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the means of the other figures, over the splits that have them; balanced accuracy in %."""
    values_by_name = {name: [float(row[name]) for row in rows if row.get(name)] for name in _MORE}
    averages = {name: fmean(values) if values else None for name, values in values_by_name.items()}
    balanced = averages["balanced_accuracy"]
    return {**averages, "balanced_accuracy": None if balanced is None else 100 * balanced}


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


def means(figures: Iterable[Figure]) -> list[Mean]:
    """Return the mean over tables for each method and epsilon: of those with a reference, or of all if none has one."""
    return [
        _mean(method, epsilon, list(cells))
        for (method, epsilon), cells in groupby(figures, lambda cell: (cell.method, cell.epsilon))
    ]


def _mean(method: str, epsilon: str, cells: Sequence[Figure]) -> Mean:
    pairs = [(cell, cell.reference) for cell in cells if cell.reference is not None]
    if not pairs:
        return Mean(method, epsilon, len(cells), fmean(cell.mean for cell in cells), None, None, None)
    ours, theirs = fmean(cell.mean for cell, _ in pairs), fmean(reference for _, reference in pairs)
    return Mean(
        method, epsilon, len(pairs), ours, theirs, ours - theirs, sum(cell.reached == "yes" for cell, _ in pairs)
    )


@cache
def references() -> Mapping[tuple[str, float, str], float]:
    """Return what reference implementations reached, in %, by method, epsilon and table (`reference.csv`)."""
    with (Path(__file__).parent / "reference.csv").open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], float(row["epsilon"]), row["set"]): float(row["accuracy"]) for row in csv.DictReader(file)
        }


def recorded_figures(figures: Sequence[Figure], *, without: Sequence[str] = ()) -> list[Figure]:
    """Return what the peers reached on the tables and epsilons of these figures, as `peers.csv` has it."""
    cells = {(float(figure.epsilon), figure.set) for figure in figures}
    return [
        figure for figure in _peers() if (float(figure.epsilon), figure.set) in cells and figure.method not in without
    ]


@cache
def _peers() -> tuple[Figure, ...]:
    return tuple(read(Path(__file__).parent / "peers.csv"))


def read(file: Path) -> list[Figure]:
    """Return the figures of a file that `write` has written; lines that start with # are remarks."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        Figure(
            method=row["method"],
            epsilon=row["epsilon"],
            set=row["set"],
            splits=int(row["splits"]),
            mean=float(row["mean"]),
            sd=None,
            standard_error=_float(row["standard_error"]),
            majority=float(row["majority"]),
            balanced_accuracy=_float(row["balanced_accuracy"]),
            auc=_float(row["auc"]),
            log_loss=_float(row["log_loss"]),
            brier=_float(row["brier"]),
            seconds=_float(row["seconds"]),
        )
        for row in csv.DictReader(lines)
    ]


def write(file: Path, figures: Iterable[Figure], *, remarks: Sequence[str] = ()) -> None:
    """Write figures to a CSV file, a line each, below the remarks."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as opened:
        opened.writelines(f"# {remark}\n" for remark in remarks)
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_text(figure.to_dict()[name]) for name in COLUMNS] for figure in figures)


def _text(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _float(text: str) -> float | None:
    return float(text) if text else None
