"""What the experiments ask of dpsql: one 90/10 split through the front door, with a cap or on a public copy.

Private runs go through `run_split` of the benchmarks: a new database file, a cap of exactly epsilon. What has no
proof, or no noise to speak of, runs on a copy that is registered as public, without a cap, and says so in its results.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

import dpsql
from dpsql import Database, methods
from examples.benchmarks.splits import Table, create, halves, run_split

#: At this epsilon every noise is 0 but for a chance below one in a billion: it stands for "no privacy".
INFINITE = 1_000_000
#: What an ordinary cell returns.
FIGURES = ("accuracy_percent", "majority_percent", "grown_depth", "leaves", "epsilon_spent", "private")


def private_run(table: Table, split: int, *, method: str, epsilon: object, **parameters: Any) -> dict[str, object]:
    """Train on nine tenths under a cap of exactly epsilon, evaluate on the rest, and return the figures."""
    outcome = run_split(table, split, method=method, epsilon=epsilon, parameters=parameters, declare_rows=True)
    return {
        "accuracy_percent": percent(outcome.accuracy),
        "majority_percent": percent(outcome.majority),
        "grown_depth": outcome.depth,
        "leaves": outcome.leaves,
        "epsilon_spent": outcome.spent,
        "private": "yes",
    }


def public_run(table: Table, split: int, *, method: str, epsilon: object, **parameters: Any) -> dict[str, object]:
    """Do the same on a public copy without a cap: for what is not private. The results say so."""
    train, test = halves(table, split)
    if "seed" in methods.get(method).parameters:
        parameters = {"seed": split, **parameters}
    with database(train=train, test=test) as db:
        db.register("train", with_rows(table.schema, len(train)), cap=None)
        model = db.train("train", epsilon=epsilon, method=method, **parameters)
        figures = measure_model(db, model, epsilon_spent=db.budget("train").spent_text)
    return {**figures, "private": "no"}


@contextmanager
def database(**frames: pd.DataFrame) -> Iterator[Database]:
    """Open a new database file that has one table for each frame; it is deleted at the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        create(path, **frames)
        with dpsql.connect(path) as db:
            yield db


def measure_model(db: Database, model: dpsql.Model, *, epsilon_spent: str) -> dict[str, object]:
    """Return a model's figures on the table `test`."""
    result, forest = db.evaluate(model, "test"), model.released.forest
    return {
        "accuracy_percent": percent(result.accuracy),
        "majority_percent": percent(result.majority),
        "grown_depth": forest.depth,
        "leaves": forest.leaves,
        "epsilon_spent": epsilon_spent,
        "private": "yes",
    }


def with_rows(schema: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Return a schema that declares this number of rows as public, as the papers take it to be."""
    return {**schema, "rows": rows}


def percent(share: float) -> float:
    """Return a share in percent, to two places.

    >>> percent(0.841820987)
    84.18
    """
    return round(100 * share, 2)
