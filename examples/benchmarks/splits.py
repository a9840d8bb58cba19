"""Trains and evaluates on 90/10 splits of public tables, through the front door: a new database file for each split.

The real tables are Parquet files in the data folder (`folder.py`). The synthetic ones, `syn5d`, `syn10d` and `syn15d`,
are made by scikit-learn's `make_classification`, where that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql import methods
from dpsql.api.database import Database, connect
from dpsql.engines.duckdb.open_database import open_file
from dpsql.engines.files.read_rows import read_rows
from dpsql.models.usable_model import Model
from dpsql.schema import category_text
from examples.benchmarks.folder import read_schemas, without_notes
from examples.benchmarks.scores import Scores, scores

#: How many features each synthetic table has. A name may end with another seed of the generator, as in `syn5d:1`.
SYNTHETIC = {"syn5d": 5, "syn10d": 10, "syn15d": 15}
#: The tables that reference figures are known for: all of them, those that are real, those of fewer than 1000 rows.
REAL = (
    "adult", "mushroom", "nursery", "car", "pendigits", "magic04", "wall_robot", "votes", "claves", "iris", "wine",
    "balance_scale", "heart_mrf",
)  # fmt: skip
SETS = (*REAL, *SYNTHETIC)
GROUPS = {"all": SETS, "real": REAL, "small": ("votes", "iris", "wine", "balance_scale", "heart_mrf")}
SYNTHETIC_ROWS = 3000
#: The declared range of every synthetic feature: it holds 98 % of the values or more, the others are clamped.
SYNTHETIC_RANGE = (-6, 6)


@dataclass(frozen=True, eq=False)
class Table:
    """A public table to split: its name, its schema as plain values, all its rows, the columns known to have NULLs."""

    name: str
    schema: Mapping[str, Any]
    frame: pd.DataFrame
    null_columns: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows there are, both parts together."""
        return len(self.frame)


@dataclass(frozen=True)
class Outcome:
    """What one split gave: figures of the held-out rows, the forest's shape, epsilon spent, seconds of training."""

    accuracy: float
    majority: float
    rows: int
    depth: int | None
    leaves: int | None
    spent: str
    balanced_accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    seconds: float | None = None


def tables(folder: Path, names: Sequence[str]) -> tuple[list[Table], dict[str, str]]:
    """Return the tables of these names that can be had, and for each other name why it cannot."""
    schemas = read_schemas(folder)
    missing = {name: why for name in names if (why := _why_missing(folder, schemas, name))}
    return [_load(folder, schemas, name) for name in names if name not in missing], missing


def synthetic(name: str) -> Table:
    """Return a synthetic table: 3000 rows, two classes, three fifths of the features informative, a fifth redundant."""
    kind, _, seed = name.partition(":")
    features = SYNTHETIC[kind]
    datasets: Any = importlib.import_module("sklearn.datasets")
    numbers, classes = datasets.make_classification(
        SYNTHETIC_ROWS,
        features,
        n_informative=3 * features // 5,
        n_redundant=features // 5,
        random_state=int(seed or 0),
    )
    columns = [f"x{place}" for place in range(features)]
    lower, upper = SYNTHETIC_RANGE
    declared = {column: {"type": "numeric", "lower": lower, "upper": upper} for column in columns}
    frame = pd.DataFrame(numbers, columns=columns).assign(label=classes)
    return Table(name, {"label": "label", "classes": ["0", "1"], "features": declared}, frame)


def run_split(
    table: Table,
    split: int,
    *,
    method: str,
    epsilon: object,
    parameters: Mapping[str, Any],
    declare_rows: bool = False,
    declare_nulls: bool = False,
    labelled: int = 100,
    widen: float = 1,
    above: bool = False,
) -> Outcome:
    """Train on nine tenths of a table under a cap of exactly epsilon, and evaluate on the tenth held out.

    The split's number draws the tenth and is the method's `seed` too, unless `parameters` has one. The number of
    training rows is declared as public or not declared at all: a method that needs it then buys it. NULL is a category
    of its own with `declare_nulls`, in the columns that are known to have some. Every number's range is declared
    `widen` times as wide, on both sides or only `above`. Of 100 training rows `labelled` keep their label. For a method
    that protects labels alone features are declared public; its published form, if it is asked for, runs without a cap.
    With a parameter `way` of `mrf` the tenth is a batch that is labelled privately.
    """
    train, test = halves(table, split)
    schema = declare_schema(
        table.schema,
        rows=len(train) if declare_rows else None,
        null_columns=table.null_columns if declare_nulls else (),
        widen=widen,
        above=above,
    )
    train = with_labels(train, schema["label"], labelled, split)
    if "seed" in methods.get(method).parameters:
        parameters = {"seed": split, **parameters}
    labels_alone = _protects_labels(method, parameters)
    cap = None if parameters.get("as_published") else epsilon
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        create(path, train=train, **({"test": test} if "way" in parameters else {}))
        with connect(path) as db:
            db.register("train", schema | {"public_features": labels_alone}, cap=cap)
            if labels_alone:
                db.set_cap("train", epsilon, kind="label")
            if "delta" in parameters:
                db.set_cap("train", epsilon, kind="approximate", delta=parameters["delta"])
            started = time.perf_counter()
            model = _model(db, method, epsilon, parameters)
            seconds = time.perf_counter() - started
            result, spent = db.evaluate(model, test), db.budget("train", model.certificate["kind"]).spent_text
    forest, figures = model.released.forest, score_shares(test[schema["label"]], model.predict_proba(test))
    return Outcome(
        result.accuracy,
        result.majority,
        result.rows,
        forest.depth,
        forest.leaves,
        spent,
        figures.balanced_accuracy,
        figures.auc,
        figures.log_loss,
        figures.brier,
        seconds,
    )


#: What `predict_private` calls the two ways of the paper.
_TREES_SEE = {"batch": "all", "subsample": "parts"}


def _model(db: Database, method: str, epsilon: object, parameters: Mapping[str, Any]) -> Model:
    """Train, or with a `way` label the held-out rows as a batch."""
    if "way" not in parameters:
        return db.train("train", epsilon=epsilon, method=method, **parameters)
    shape = {name: value for name, value in parameters.items() if name != "way"}
    trees_see = _TREES_SEE[parameters["way"]]
    return db.predict_private(db.structure("train", **shape), "test", epsilon=epsilon, trees_see=trees_see)


def score_shares(labels: pd.Series, shares: pd.DataFrame) -> Scores:
    """Return the figures of predicted shares, a column for each class, on the rows whose label is one of these."""
    places = class_numbers(labels, list(shares.columns))
    return scores(places[places >= 0], shares.to_numpy()[places >= 0])


def class_numbers(labels: pd.Series, classes: Sequence[str]) -> Any:
    """Return the number of each label's class; -1 for a label that is missing or none of them.

    >>> class_numbers(pd.Series(["b", None, "a", "c"]), ["a", "b"])
    array([ 1, -1,  0, -1])
    """
    places: dict[str | None, int] = {name: place for place, name in enumerate(classes)}
    plain = labels.astype(object).where(labels.notna(), None)
    return np.array([places.get(category_text(value), -1) for value in plain], dtype=np.int64)


def declare_schema(
    schema: Mapping[str, Any],
    *,
    rows: int | None = None,
    null_columns: Sequence[str] = (),
    widen: float = 1,
    above: bool = False,
) -> dict[str, Any]:
    """Return a schema with this many rows or none, NULL as a value of categories in `null_columns`, wider ranges.

    >>> color = {"features": {"color": {"type": "categorical", "values": ["red"]}}, "rows": 9}
    >>> declare_schema(color, null_columns=["color"])["features"]
    {'color': {'type': 'categorical', 'values': ['red', 'NULL'], 'null': 'NULL'}}
    """
    plain = {key: value for key, value in schema.items() if key != "rows"}
    if rows is not None:
        plain["rows"] = rows
    plain["features"] = {name: widen_range(feature, widen, above=above) for name, feature in schema["features"].items()}
    for name in null_columns:
        feature = schema["features"][name]
        if feature["type"] == "categorical":
            plain["features"][name] = {**feature, "values": [*feature["values"], "NULL"], "null": "NULL"}
    return plain


def widen_range(feature: Mapping[str, Any], times: float, *, above: bool = False) -> dict[str, Any]:
    """Return a feature's declaration with a range this many times as wide, around the same middle or only upwards.

    >>> widen_range({"type": "numeric", "lower": 0, "upper": 10}, 5)
    {'type': 'numeric', 'lower': -20.0, 'upper': 30.0}
    >>> widen_range({"type": "numeric", "lower": 0, "upper": 10}, 5, above=True)
    {'type': 'numeric', 'lower': 0, 'upper': 50.0}
    """
    if feature["type"] != "numeric" or times == 1:
        return dict(feature)
    lower, upper = feature["lower"], feature["upper"]
    if above:
        return {**feature, "upper": float(lower + times * (upper - lower))}
    more = (times - 1) / 2 * (upper - lower)
    return {**feature, "lower": lower - more, "upper": upper + more}


def halves(table: Table, split: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows to train on and the tenth to evaluate on, drawn with the split's number as seed."""
    out = np.random.default_rng(split).permutation(table.rows) < table.rows // 10
    return table.frame[~out], table.frame[out]


def with_labels(frame: pd.DataFrame, label: str, percent: int, split: int) -> pd.DataFrame:
    """Return rows of which `percent` % keep their label, drawn by the split's number; the others have none.

    >>> with_labels(pd.DataFrame({"y": ["a"] * 10}), "y", 30, 1)["y"].notna().sum()
    np.int64(3)
    """
    if percent >= 100:
        return frame
    rank = np.random.default_rng([split, percent]).permutation(len(frame))
    return frame.assign(**{label: frame[label].astype(object).where(rank * 100 < percent * len(frame), None)})


def _protects_labels(method: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a method that learns from unlabelled rows protects labels alone, with these parameters."""
    declared_parameters = methods.get(method).parameters
    return "unlabelled" in declared_parameters and (
        "privacy" not in declared_parameters or parameters.get("privacy") == "labels"
    )


def create(path: Path, **frames: pd.DataFrame) -> None:
    """Write a new database file with one table for each frame."""
    engine = open_file(path, create=True)
    try:
        for name, frame in frames.items():
            engine.create(name, exp.select("*").from_("batch"), {"batch": frame})
    finally:
        engine.close()


def synthetic_problem() -> str:
    """Return why a synthetic table cannot be made; nothing where it can."""
    return "" if importlib.util.find_spec("sklearn") else "scikit-learn is not installed"


def _is_synthetic(name: str) -> bool:
    kind, colon, seed = name.partition(":")
    return kind in SYNTHETIC and (seed.isdecimal() or not colon)


def _why_missing(folder: Path, schemas: Mapping[str, Any], name: str) -> str:
    if _is_synthetic(name):
        return synthetic_problem()
    there = name in schemas and (folder / str(schemas[name].get("file"))).is_file()
    return "" if there else f"it is not in {folder}"


def _load(folder: Path, schemas: Mapping[str, Any], name: str) -> Table:
    if _is_synthetic(name):
        return synthetic(name)
    entry = schemas[name]
    rows = read_rows(folder / entry["file"], ())
    return Table(name, without_notes(entry), rows, tuple(entry.get("nulls", ())))
