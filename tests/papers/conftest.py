"""A data folder of small tables that bear the names of the papers' tables, and short runs on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from tests.papers.frame import main

LETTERS = ("a", "b", "c")


def categories(rows: int, columns: int, values: tuple[str, ...], seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return random categories, a label that follows the first of them nine times in ten, and the schema."""
    chance = np.random.default_rng(seed)
    drawn = chance.integers(len(values), size=(rows, columns))
    frame = pd.DataFrame({f"c{place}": np.array(values, object)[drawn[:, place]] for place in range(columns)})
    wrong = chance.random(rows) < 0.1
    frame["label"] = np.where(wrong, "no", np.where(drawn[:, 0] == 0, "yes", "no"))
    features = {f"c{place}": {"type": "categorical", "values": list(values)} for place in range(columns)}
    return frame, {"label": "label", "classes": ["yes", "no"], "features": features}


def numbers(rows: int, columns: int, seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return random numbers between 0 and 1, a label that follows the first of them, and the schema."""
    drawn = np.random.default_rng(seed).random((rows, columns))
    frame = pd.DataFrame(drawn, columns=[f"n{place}" for place in range(columns)])
    frame["label"] = np.where(frame["n0"] < 0.5, "low", "high")
    features = {f"n{place}": {"type": "numeric", "lower": 0, "upper": 1} for place in range(columns)}
    return frame, {"label": "label", "classes": ["low", "high"], "features": features}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with small tables called nursery, votes and wall_robot."""
    folder = tmp_path_factory.mktemp("data")
    made = {
        "nursery": categories(500, 4, LETTERS, seed=1),
        "votes": categories(300, 5, ("y", "n"), seed=2),
        "wall_robot": numbers(500, 4, seed=3),
    }
    made["votes"][0].loc[0:20, "c1"] = None  # the votes have gaps
    schemas = {}
    for name, (frame, schema) in made.items():
        with duckdb.connect() as connection:
            connection.register("frame", frame)
            connection.execute("COPY frame TO ? (FORMAT parquet)", [str(folder / f"{name}.parquet")])
        schemas[name] = {**schema, "file": f"{name}.parquet"}
    (folder / "schemas.json").write_text(json.dumps(schemas), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder where all short runs of this session leave their results."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="session")
def finished(data: Path, results: Path) -> Callable[[str], Path]:
    """Return a function that runs an experiment short, once a session, and returns its CSV file."""
    done: set[str] = set()

    def run(name: str) -> Path:
        if name not in done:
            assert main(["run", name, "--short", "--data", str(data), "--results", str(results)]) == 0
            done.add(name)
        return results / f"{name}-short.csv"

    return run
