"""The tables of the papers: real ones as each paper cleaned them, and the synthetic ones of Fletcher & Islam 2017.

What a paper does to its table before training (drop rows with gaps, fill gaps with the most frequent value) looks at
the rows. That is fine for public tables; a private one would have to pay for it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.folder import read_schemas
from examples.benchmarks.splits import Table, tables

#: Informative and random features of each synthetic table: Table 1 of Fletcher & Islam 2017.
SYNTHETIC = {
    "SynthA": (5, 0),
    "SynthB": (10, 0),
    "SynthC": (15, 0),
    "SynthD": (10, 5),
    "SynthE": (5, 10),
    "SynthF": (5, 5),
    "SynthG": (10, 10),
}
SYNTHETIC_ROWS = 30_000
SHORT_ROWS = 1500


def complete(table: Table) -> Table:
    """Return the table without its rows that have gaps."""
    return replace(table, frame=table.frame.dropna(), null_columns=())


def fill_gaps(table: Table) -> Table:
    """Return the table with every gap filled by the most frequent value of its column."""
    return replace(table, frame=table.frame.fillna(table.frame.mode().iloc[0]), null_columns=())


def without(column: str) -> Callable[[Table], Table]:
    """Return the step that drops a feature."""

    def drop(table: Table) -> Table:
        features = {name: feature for name, feature in table.schema["features"].items() if name != column}
        null_columns = tuple(name for name in table.null_columns if name != column)
        return Table(table.name, {**table.schema, "features": features}, table.frame.drop(columns=column), null_columns)

    return drop


#: Tables as a paper cleaned them: the table in the data folder, and the step.
CLEANED: dict[str, tuple[str, Callable[[Table], Table]]] = {
    "adult-complete": ("adult", complete),
    "mushroom-complete": ("mushroom", complete),
    "mushroom-21": ("mushroom", without("stalk_root")),
    "votes-filled": ("votes", fill_gaps),
}


def why_missing(name: str, data: Path) -> str:
    """Return why a table cannot be had; "" where it can."""
    if name in SYNTHETIC:
        return "" if importlib.util.find_spec("sklearn") else "scikit-learn is not installed"
    source = CLEANED[name][0] if name in CLEANED else name
    schemas = read_schemas(data)
    there = source in schemas and (data / str(schemas[source].get("file"))).is_file()
    return "" if there else f"it is not in {data}"


def load(name: str, data: Path, *, split: int, short: bool = False) -> Table:
    """Return a table; a synthetic one is drawn anew for each split. A short one has few rows."""
    if name in SYNTHETIC:
        return synthetic(name, SHORT_ROWS if short else SYNTHETIC_ROWS, seed=split)
    table = _real(name, data)
    if not short or table.rows <= SHORT_ROWS:
        return table
    return replace(table, frame=table.frame.sample(SHORT_ROWS, random_state=0))


@lru_cache(maxsize=16)
def _real(name: str, data: Path) -> Table:
    source, step = CLEANED.get(name, (name, None))
    table = tables(data, [source])[0][0]
    return step(table) if step else table


def synthetic(name: str, rows: int, *, seed: int) -> Table:
    """Return a synthetic table as the paper makes it: Gaussian clusters around the corners of a cube, two classes.

    `make_classification` gives each cluster its own covariance, so that two seeds are two problems, one harder than
    the other by up to ten points. The declared range of a number is that of the rows drawn: with it the shares of empty
    leaves come out as in the paper's Table 3. Nobody's data are in these rows, so that their range may be public.
    """
    informative, random = SYNTHETIC[name]
    datasets: Any = importlib.import_module("sklearn.datasets")
    numbers, classes = datasets.make_classification(
        rows, informative + random, n_informative=informative, n_redundant=0, random_state=seed
    )
    columns = [f"x{place}" for place in range(informative + random)]
    frame = pd.DataFrame(numbers.astype(np.float32), columns=columns)
    declared = {
        column: {"type": "numeric", "lower": float(frame[column].min()), "upper": float(frame[column].max())}
        for column in columns
    }
    frame = frame.assign(label=classes)
    return Table(name, {"label": "label", "classes": ["0", "1"], "features": declared}, frame)
