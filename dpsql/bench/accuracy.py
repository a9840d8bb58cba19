"""Measures how accurate methods are on sample tables: a fifth of the rows is held out, several times over.

Each split goes through the front door: a new database file, the other rows registered as public data (so that a tiny
table is not stopped because its noisy size is about zero), a charged run, an evaluation on the rows held out. Beside
it stand the share of the largest class and, where scikit-learn is installed, its random forest without privacy on the
same rows.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql import methods
from dpsql.api.database import connect
from dpsql.bench.sample_tables import SampleTable, scikit_learn_is_here
from dpsql.engines.duckdb.open_database import open_file

#: A test set is one row of this many.
TEST_SHARE = 5
#: Trees of the forest without privacy.
FOREST_TREES = 100


@dataclass(frozen=True)
class Accuracy:
    """Means over the splits of one table, method and epsilon, in %; None where it is not known."""

    table: str
    rows: int
    method: str
    epsilon: str
    splits: int
    mean: float
    standard_deviation: float | None
    majority: float
    without_privacy: float | None
    seconds: float


def measure_accuracy(
    tables: Sequence[SampleTable],
    names: Sequence[str],
    epsilons: Sequence[str],
    *,
    splits: int,
    parameters: Mapping[str, Any],
    progress: Callable[[str], None] = lambda what: None,
) -> list[dict[str, Any]]:
    """Return one `Accuracy` as plain values for each table, method and epsilon."""
    figures = []
    for table in tables:
        forests = [forest_accuracy(table, split) for split in range(splits)] if scikit_learn_is_here() else []
        for name in names:
            for epsilon in epsilons:
                progress(f"{table.name}: {name}, epsilon {epsilon}")
                outcomes = [private_accuracy(table, split, name, epsilon, parameters) for split in range(splits)]
                figures.append(asdict(_mean(table, name, epsilon, outcomes, forests)))
    return figures


def _mean(
    table: SampleTable,
    name: str,
    epsilon: str,
    outcomes: Sequence[tuple[float, float, float]],
    forests: Sequence[float],
) -> Accuracy:
    accuracies, majorities, seconds = zip(*outcomes, strict=True)
    return Accuracy(
        table=table.name,
        rows=len(table.frame),
        method=name,
        epsilon=epsilon,
        splits=len(outcomes),
        mean=100 * fmean(accuracies),
        standard_deviation=100 * stdev(accuracies) if len(outcomes) > 1 else None,
        majority=100 * fmean(majorities),
        without_privacy=100 * fmean(forests) if forests else None,
        seconds=fmean(seconds),
    )


def train_and_test(table: SampleTable, split: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows to train on and the fifth to evaluate on, drawn with the split's number as seed."""
    rows = len(table.frame)
    out = np.random.default_rng(split).permutation(rows) < rows // TEST_SHARE
    return table.frame[~out], table.frame[out]


def private_accuracy(
    table: SampleTable, split: int, name: str, epsilon: str, parameters: Mapping[str, Any]
) -> tuple[float, float, float]:
    """Train and evaluate on one split; return accuracy, the share of the largest class, and seconds of training.

    The split's number is the method's `seed` too, unless the parameters have one. Noise has no seed.
    """
    train, test = train_and_test(table, split)
    if "seed" in methods.get(name).parameters:
        parameters = {"seed": split, **parameters}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        engine = open_file(path, create=True)
        try:
            engine.create("train", exp.select("*").from_("batch"), {"batch": train})
        finally:
            engine.close()
        with connect(path) as db:
            db.register("train", table.schema, cap=None)  # public rows: tiny tables must not stop at a noisy size
            started = time.perf_counter()
            model = db.train("train", epsilon=epsilon, method=name, **parameters)
            seconds = time.perf_counter() - started
            result = db.evaluate(model, test)
    return result.accuracy, result.majority, seconds


def forest_accuracy(table: SampleTable, split: int) -> float:
    """Return the accuracy of scikit-learn's random forest on one split: what no privacy at all would give."""
    ensemble: Any = importlib.import_module("sklearn.ensemble")
    train, test = train_and_test(table, split)
    forest = ensemble.RandomForestClassifier(FOREST_TREES, random_state=split)
    forest.fit(_numbers(table, train), train[table.schema["label"]])
    return float(forest.score(_numbers(table, test), test[table.schema["label"]]))


def _numbers(table: SampleTable, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the features as numbers: a category is its place among the declared values, -1 where it is missing."""
    return pd.DataFrame(
        {
            name: rows[name].fillna(feature["lower"])
            if feature["type"] == "numeric"
            else pd.Categorical(rows[name].astype(str), [str(value) for value in feature["values"]]).codes
            for name, feature in table.schema["features"].items()
        }
    )
