"""Measures private regression forests on numeric targets: RMSE beside the mean predictor and a non-private forest.

    python -m examples.regression --methods rdt --epsilons 0.1,1,2 --splits 5

The data folder holds one Parquet file per table and `schemas.json`, their public schemas by name. A set such as
`adult.age` predicts that column from all others, the class label included, within the column's declared bounds.
`census.hours_per_week` is a synthetic table that is always there. Each split is a new database: nine tenths are
registered under a cap of exactly epsilon and trained on, one tenth is a public table to evaluate on. Split number k
shapes the trees too (`seed=k`); noise has no seed, so figures differ a little each time.

One line per set, method and epsilon comes out: the mean RMSE over the splits and its standard deviation, the RMSE of
always predicting the mean of the test rows, that of scikit-learn's RandomForestRegressor of 100 trees on the same split
(categories as numbers; not private), and how much of the way from the mean to that forest the private one goes. What is
not installed or not in the folder is skipped and named.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import dpsql
from dpsql import methods
from dpsql.api import census
from examples.benchmarks.folder import data_folder, read_schemas, without_notes

SETS = (
    "census.hours_per_week",
    "adult.age",
    "adult.hours_per_week",
    "magic04.f_size",
    "pendigits.y8",
    "wall_robot.sd_front",
    "wine.alcohol",
)
CENSUS_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Problem:
    """A table with a numeric column to predict, and its public schema."""

    name: str
    frame: pd.DataFrame
    schema: dict[str, Any]

    def split(self, number: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return nine tenths to train on and one to test on, drawn with the number as seed."""
        out = np.random.default_rng(number).permutation(len(self.frame)) < len(self.frame) // 10
        return self.frame[~out], self.frame[out]


def main() -> None:
    """Run what is asked for and print one line per set, method and epsilon."""
    options = parser().parse_args()
    print(f"{'set':24}{'method':8}{'epsilon':>8}{'RMSE':>9}{'sd':>8}{'mean':>9}{'forest':>9}{'way':>7}", flush=True)
    for name in options.sets.split(","):
        problem = load(options.data, name)
        if problem is None:
            print(f"{name:24}skipped: it is not in {options.data}")
            continue
        for method in options.methods.split(","):
            for epsilon in options.epsilons.split(","):
                print(line(problem, method, epsilon, options), flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=data_folder(), help="folder of Parquet files")
    options.add_argument("--methods", default="rdt", help="methods, separated by commas")
    options.add_argument("--epsilons", default="0.1,1,2", help="costs of a run, separated by commas")
    options.add_argument("--splits", type=int, default=5, help="number of 90/10 splits")
    options.add_argument("--sets", default=",".join(SETS), help="TABLE.COLUMN to predict, separated by commas")
    options.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the method")
    options.add_argument("--no-forest", action="store_true", help="leave the non-private forest out")
    return options


def load(data: Path, name: str) -> Problem | None:
    """Return the problem of a set's name, or None when its table is not there."""
    table, _, target = name.partition(".")
    if table == "census":
        return problem(name, census.rows(CENSUS_ROWS, 1), census.SCHEMA, target)
    schemas = read_schemas(data)
    if table not in schemas or not (data / schemas[table]["file"]).exists():
        return None
    frame = duckdb.execute("FROM read_parquet(?)", [str(data / schemas[table]["file"])]).df()
    return problem(name, frame, without_notes(schemas[table]), target)


def problem(name: str, frame: pd.DataFrame, schema: dict[str, Any], target: str) -> Problem:
    """Return a schema's table as a problem: one of its numbers to predict, its classes as one more feature."""
    bounds = schema["features"][target]
    features = {key: value for key, value in schema["features"].items() if key != target}
    features[schema["label"]] = {"type": "categorical", "values": schema["classes"]}
    declared = {
        "label": target,
        "target": {"lower": bounds["lower"], "upper": bounds["upper"]},
        "features": features,
    }
    return Problem(name, frame[[target, *features]].dropna(subset=[target]).reset_index(drop=True), declared)


def line(problem: Problem, method: str, epsilon: str, options: argparse.Namespace) -> str:
    """Return one line of the table: the mean over the splits."""
    ours, plain = zip(*private_errors(problem, method, epsilon, options), strict=True)
    spread = stdev(ours) if len(ours) > 1 else 0.0
    shown = f"{problem.name:24}{method:8}{epsilon:>8}{mean(ours):9.4g}{spread:8.2g}{mean(plain):9.4g}"
    forests = [] if options.no_forest else [forest_error(problem, split) for split in range(options.splits)]
    errors = [error for error in forests if error is not None]
    if not errors:
        return f"{shown}{'-':>9}{'-':>7}"
    way = (mean(plain) - mean(ours)) / (mean(plain) - mean(errors))
    return f"{shown}{mean(errors):9.4g}{way:7.0%}"


def private_errors(
    problem: Problem, method: str, epsilon: str, options: argparse.Namespace
) -> Iterator[tuple[float, float]]:
    """Yield the RMSE of a private forest, and of the mean, on each split."""
    given = {key: json.loads(value) for key, value in (text.split("=", 1) for text in options.param)}
    for split in range(options.splits):
        started = time.perf_counter()
        seed = {"seed": split} if "seed" in methods.get(method).parameters else {}
        with duckdb.connect() as connection:
            db = dpsql.connect(connection)
            for name, frame in zip(("train", "test"), problem.split(split), strict=True):
                connection.register("frame", frame)
                connection.execute(f"CREATE TABLE {name} AS FROM frame")
            db.register("train", problem.schema, cap=epsilon)
            evaluation = db.evaluate(db.train("train", epsilon=epsilon, method=method, **seed, **given), "test")
        took = time.perf_counter() - started
        print(
            f"  {problem.name} {method} {epsilon} split {split}: {evaluation.rmse:.4g} in {took:.1f} s", file=sys.stderr
        )
        yield evaluation.rmse, evaluation.mean_rmse


@lru_cache(maxsize=64)
def forest_error(problem: Problem, split: int) -> float | None:
    """Return the RMSE of a non-private forest on a split, or None where scikit-learn is not installed."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        print("  scikit-learn is not installed: the non-private forest is skipped", file=sys.stderr)
        return None
    target = problem.schema["label"]
    train, test = (numbers(frame, problem.schema) for frame in problem.split(split))
    forest = RandomForestRegressor(100, random_state=split, n_jobs=-1).fit(train.drop(columns=target), train[target])
    return float(np.sqrt(np.mean((forest.predict(test.drop(columns=target)) - test[target]) ** 2)))


def numbers(frame: pd.DataFrame, schema: dict[str, Any]) -> pd.DataFrame:
    """Return a frame with categories as numbers in the schema's order, and -1 for what is missing or unknown."""
    columns = {schema["label"]: frame[schema["label"]].astype(float)}
    for name, feature in schema["features"].items():
        if feature["type"] == "numeric":
            columns[name] = frame[name].astype(float).fillna(-1)
        else:
            places = {str(value): place for place, value in enumerate(feature.get("values", ("false", "true")))}
            columns[name] = frame[name].map(lambda value, places=places: places.get(str(value), -1)).astype(float)
    return pd.DataFrame(columns)


if __name__ == "__main__":
    main()
