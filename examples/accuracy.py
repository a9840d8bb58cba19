"""Measures a method's accuracy on real tables: repeated 90/10 splits, each trained and evaluated by dpsql itself.

    python examples/accuracy.py --data ../shared/data --method rosnam --epsilon 1 --splits 10 --csv out.csv

The data folder holds one Parquet file per table and `schemas.json`, their public schemas by name. Each split is a new
database: nine tenths are registered under a cap of exactly epsilon and trained on, one tenth is a public table
to evaluate on. Split number k shapes the trees too (`seed=k`); noise has no seed, so figures differ a little each time.

With --csv every split is written down as soon as it is done, and what is there already is not run again: stop and
start as you like. A table that is not in the folder is skipped and named.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import dpsql
from dpsql import methods

SETS = ("adult", "mushroom", "nursery", "claves", "pendigits", "magic04")
#: What a reference implementation reached, in %, by method, epsilon and table
#: (columns fi_pf, private_rdt, private_id3 and snr_dprf of ACCURACY.md).
REFERENCE: Mapping[str, Mapping[float, Mapping[str, float]]] = {
    "rosnam": {
        0.1: {"adult": 76.3, "balance_scale": 36.1, "car": 28.2, "claves": 28.5, "heart_mrf": 50.3,
              "iris": 36.3, "magic04": 67.6, "mushroom": 66.7, "nursery": 27.8, "pendigits": 19.1,
              "votes": 52.5, "wall_robot": 56.9, "wine": 35.8},
        1.0: {"adult": 81.6, "balance_scale": 52.7, "car": 66.3, "claves": 59.1, "heart_mrf": 56.5,
              "iris": 69.3, "magic04": 70.1, "mushroom": 95.0, "nursery": 84.2, "pendigits": 81.2,
              "votes": 67.3, "wall_robot": 56.4, "wine": 54.8},
        2.0: {"adult": 82.0, "balance_scale": 60.9, "car": 74.3, "claves": 68.2, "heart_mrf": 59.6,
              "iris": 77.9, "magic04": 70.4, "mushroom": 96.9, "nursery": 89.5, "pendigits": 87.1,
              "votes": 71.6, "wall_robot": 58.4, "wine": 64.6},
    },
    "rdt": {
        0.1: {"adult": 76.1, "balance_scale": 40.6, "car": 36.4, "claves": 34.4, "heart_mrf": 60.5,
              "iris": 47.2, "magic04": 65.8, "mushroom": 90.8, "nursery": 48.9, "pendigits": 71.5,
              "votes": 70.6, "wall_robot": 55.7, "wine": 42.3},
        1.0: {"adult": 76.1, "balance_scale": 75.1, "car": 76.9, "claves": 72.2, "heart_mrf": 75.6,
              "iris": 80.7, "magic04": 65.8, "mushroom": 91.7, "nursery": 89.3, "pendigits": 77.7,
              "votes": 88.2, "wall_robot": 55.2, "wine": 76.0},
        2.0: {"adult": 76.1, "balance_scale": 77.3, "car": 75.8, "claves": 74.0, "heart_mrf": 76.3,
              "iris": 82.0, "magic04": 65.8, "mushroom": 91.8, "nursery": 90.3, "pendigits": 77.7,
              "votes": 88.9, "wall_robot": 55.0, "wine": 77.6},
    },
    "id3": {
        0.1: {"adult": 54.0, "balance_scale": 33.2, "car": 23.9, "claves": 26.1, "heart_mrf": 49.6,
              "iris": 35.6, "magic04": 57.0, "mushroom": 53.5, "nursery": 23.0, "pendigits": 10.7,
              "votes": 50.4, "wall_robot": 46.8, "wine": 32.8},
        1.0: {"adult": 57.8, "balance_scale": 37.7, "car": 30.0, "claves": 28.7, "heart_mrf": 50.4,
              "iris": 44.5, "magic04": 65.7, "mushroom": 67.9, "nursery": 27.1, "pendigits": 14.3,
              "votes": 54.9, "wall_robot": 75.8, "wine": 36.4},
        2.0: {"adult": 60.6, "balance_scale": 35.5, "car": 28.9, "claves": 29.6, "heart_mrf": 54.7,
              "iris": 50.7, "magic04": 68.5, "mushroom": 76.5, "nursery": 26.2, "pendigits": 14.0,
              "votes": 63.5, "wall_robot": 78.6, "wine": 38.8},
    },
    "snr": {
        0.1: {"adult": 76.8, "balance_scale": 60.2, "car": 69.7, "claves": 60.2, "heart_mrf": 62.3,
              "iris": 49.7, "magic04": 73.7, "mushroom": 92.3, "nursery": 77.3, "pendigits": 41.5,
              "votes": 78.9, "wall_robot": 71.0, "wine": 43.8},
        1.0: {"adult": 78.6, "balance_scale": 72.8, "car": 70.2, "claves": 69.7, "heart_mrf": 72.3,
              "iris": 85.5, "magic04": 77.5, "mushroom": 97.1, "nursery": 86.5, "pendigits": 63.3,
              "votes": 88.8, "wall_robot": 76.9, "wine": 69.1},
        2.0: {"adult": 79.2, "balance_scale": 77.8, "car": 70.2, "claves": 71.2, "heart_mrf": 73.9,
              "iris": 90.5, "magic04": 78.7, "mushroom": 98.4, "nursery": 89.6, "pendigits": 69.0,
              "votes": 89.0, "wall_robot": 77.0, "wine": 81.8},
    },
}  # fmt: skip
COLUMNS = ("method", "epsilon", "parameters", "set", "split", "rows", "depth", "leaves", "accuracy", "majority")
#: `held` says for each row of the file, by its number, whether it is held out.
CREATE_TRAIN = """
CREATE TABLE train AS SELECT source.* EXCLUDE (file_row_number)
FROM read_parquet(?, file_row_number = true) AS source JOIN held ON held.row = source.file_row_number
WHERE NOT held.out
"""
CREATE_TEST = """
CREATE TABLE test AS SELECT source.* EXCLUDE (file_row_number)
FROM read_parquet(?, file_row_number = true) AS source JOIN held ON held.row = source.file_row_number
WHERE held.out
"""


def main() -> None:
    """Run the splits that are asked for and not yet there, then print one line per table."""
    asked = parser().parse_args()
    schemas = json.loads((asked.data / "schemas.json").read_text(encoding="utf-8"))
    done = read_results(asked.csv)
    wanted = {"method": asked.method, "epsilon": asked.epsilon, "parameters": " ".join(sorted(asked.param))}
    print(f"{'set':14}{'splits':>7}{'mean %':>8}{'sd':>6}{'reference':>11}{'difference':>12}{'majority':>10}")
    for name in asked.sets.split(","):
        if name not in schemas or not (asked.data / schemas[name]["file"]).exists():
            print(f"{name:14}skipped: it is not in {asked.data}")
            continue
        found = []
        for split in range(asked.splits):
            key = {**wanted, "set": name, "split": str(split)}
            result = next((row for row in done if key.items() <= row.items()), None)
            if result is None:
                result = key | run_split(asked, schemas[name], name, split)
                append_result(asked.csv, result)
            found.append(result)
        print(summary(name, asked, found), flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of Parquet files")
    options.add_argument("--method", default="rosnam")
    options.add_argument("--epsilon", default="1", help="cost of each run")
    options.add_argument("--splits", type=int, default=10, help="number of 90/10 splits")
    options.add_argument("--sets", default=",".join(SETS), help="tables, separated by commas")
    options.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the method")
    options.add_argument("--csv", type=Path, help="write every split here; what is there is not run again")
    return options


def run_split(asked: argparse.Namespace, schema: dict[str, Any], name: str, split: int) -> dict[str, str]:
    """Train on nine tenths and evaluate on one, in a database of its own; return the figures as text."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        create_tables(path, asked.data / schema["file"], split)
        with dpsql.connect(path) as db:
            db.register("train", schema, cap=asked.epsilon)
            parameters = {key: json.loads(value) for key, value in (one.split("=", 1) for one in asked.param)}
            if "seed" in methods.get(asked.method).parameters:
                parameters["seed"] = split
            model = db.train("train", epsilon=asked.epsilon, method=asked.method, **parameters)
            result = db.evaluate(model, "test")
    forest = model.released.forest
    took = time.perf_counter() - started
    print(f"  {name} split {split}: {result.accuracy:.2%} in {took:.1f} s", file=sys.stderr)
    figures = (result.rows, forest.depth, forest.leaves, result.accuracy, result.majority)
    return dict(zip(COLUMNS[5:], map(str, figures), strict=True))


def create_tables(path: Path, file: Path, split: int) -> None:
    """Write tables `train` (90 %) and `test` (10 %) of a Parquet file's rows, drawn with the split as seed."""
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(file)]).fetchall()[0][0]
        out = np.random.default_rng(split).permutation(rows) < rows // 10
        connection.register("held", pd.DataFrame({"row": np.arange(rows), "out": out}))
        connection.execute(CREATE_TRAIN, [str(file)])
        connection.execute(CREATE_TEST, [str(file)])


def read_results(path: Path | None) -> list[dict[str, str]]:
    """Return the splits that were written down before."""
    if path is None or not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_result(path: Path | None, result: Mapping[str, str]) -> None:
    """Write one split down."""
    if path is None:
        return
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(result)


def summary(name: str, asked: argparse.Namespace, found: list[dict[str, str]]) -> str:
    """Return a table's line: mean, standard deviation, the reference and the difference in points."""
    accuracy = [100 * float(row["accuracy"]) for row in found]
    spread = stdev(accuracy) if len(accuracy) > 1 else 0.0
    known = REFERENCE.get(asked.method, {}).get(float(asked.epsilon), {}).get(name)
    reference = f"{'-':>11}{'-':>12}" if known is None else f"{known:11.1f}{mean(accuracy) - known:+12.1f}"
    majority = 100 * mean(float(row["majority"]) for row in found)
    return f"{name:14}{len(found):7}{mean(accuracy):8.1f}{spread:6.1f}{reference}{majority:10.1f}"


if __name__ == "__main__":
    main()
