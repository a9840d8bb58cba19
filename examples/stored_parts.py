"""A stored partition column, 0 to 9, taken as it stands and hashed again: accuracy and trees without rows.

    python -m examples.stored_parts

Rows are made up: 20,000 of five numbers and a label that follows from three of them. A method of ten disjoint trees is
trained on four fifths and evaluated on the fifth, once with `partition: part`, by which the column is hashed, and once
with `partition: {column: part, parts: 10}`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql import connect
from dpsql.engines.duckdb.open_database import open_file

#: What stands in the schema's key `partition`.
PARTITIONS: dict[str, Any] = {"hashed again": "part", "as it stands": {"column": "part", "parts": 10}}


def made_up_rows(rows: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Return rows whose label follows from three of five numbers, and whose part is their number modulo ten."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(generator.random((rows, 5)), columns=list("abcde"))
    label = np.where((frame["a"] + frame["b"] > 1) ^ (frame["c"] > 0.7), "yes", "no")
    return frame.assign(label=label, part=np.arange(rows) % 10)


def accuracy(frame: pd.DataFrame, partition: Any, method: str, *, seed: int, epsilon: str) -> float:
    """Train ten disjoint trees on four fifths of the rows; return the accuracy on the others, in %."""
    held_out = np.random.default_rng(seed).random(len(frame)) < 0.2
    features = {name: {"type": "numeric", "lower": 0, "upper": 1} for name in "abcde"}
    schema = {"label": "label", "classes": ["no", "yes"], "features": features, "partition": partition}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts.duckdb"
        engine = open_file(path, create=True)
        try:
            engine.create("rows", exp.select("*").from_("batch"), {"batch": frame[~held_out]})
        finally:
            engine.close()
        with connect(path) as database:
            database.register("rows", schema, cap=epsilon)
            model = database.train("rows", epsilon=epsilon, method=method, trees=10, depth=5, seed=seed)
            return 100 * database.evaluate(model, frame[held_out]).accuracy


def main() -> None:
    """Print mean and standard error of the accuracy, a line for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="spe", help="a method of disjoint trees: spe or rosnam")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    frame = made_up_rows()
    for name, partition in PARTITIONS.items():
        runs = [
            accuracy(frame, partition, given.method, seed=seed, epsilon=given.epsilon) for seed in range(given.runs)
        ]
        error = f" ± {stdev(runs) / len(runs) ** 0.5:.1f}" if len(runs) > 1 else ""
        print(f"{given.method}, column {name}: {fmean(runs):.1f} %{error}")


if __name__ == "__main__":
    main()
