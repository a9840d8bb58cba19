"""Other libraries' private classifiers on the same splits, in an environment of their own; dpsql never imports them.

A peer gets what dpsql gets: the same training rows, the public bounds and categories, the classes. Numbers are clamped
to their bounds. NULL is a category of its own where a column is known to have some, and the lower bound of a number.
Rows are put in a random order first: diffprivlib's forest deals them out to its trees as they come. Every parameter but
epsilon is the peer's own default.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
import venv
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpsql.errors import DpsqlError, UnknownName, UsageError
from dpsql.schema import Feature, Numeric, Schema
from examples.benchmarks import peer_runner
from examples.benchmarks.splits import Outcome, Table, class_numbers, declare_schema, halves, score_shares, with_labels

#: What the environment holds. An older diffprivlib with scikit-learn 1.4 or later adds far more noise to its logistic
#: regression than epsilon asks for (IBM/differential-privacy-library, pull request 98); scikit-learn 1.9 lacks a name
#: that its forest imports.
REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn==1.7.2", "interpret-core==0.7.8")
NAMES = tuple(peer_runner.PEERS)
#: Peers that know two classes only.
BINARY = ("dpebm",)


@dataclass(frozen=True)
class Environment:
    """A folder with a python that has the peers."""

    folder: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def is_installed(self) -> bool:
        """Whether there is one."""
        return self.python.is_file()

    def install(self) -> None:
        """Make the environment, or bring an old one up to date. This needs a package index."""
        venv.create(self.folder, with_pip=True)
        done = subprocess.run(
            [str(self.python), "-I", "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=False, stdout=sys.stderr
        )
        if done.returncode:
            raise DpsqlError(
                f'pip could not install the peers into "{self.folder}".',
                hint="see its message above; is there a network?",
            )

    def versions(self) -> dict[str, str]:
        """Return what is installed, by name."""
        names = [requirement.partition("==")[0] for requirement in REQUIREMENTS]
        script = (
            f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {[*names, 'numpy']}}}))"
        )
        done = subprocess.run([str(self.python), "-I", "-c", script], check=False, capture_output=True, text=True)
        if done.returncode:
            raise UsageError(
                f'"{self.folder}" does not have the peers.',
                hint=f"python -m examples.benchmarks peers --install {self.folder}",
            )
        installed_versions: dict[str, str] = json.loads(done.stdout)
        return installed_versions


class Worker:
    """A process of the peers' environment that trains what it is asked for, one request after the other."""

    def __init__(self, environment: Environment) -> None:
        if not environment.is_installed:
            raise UsageError(
                f'there is no environment of the peers in "{environment.folder}".',
                hint=f"python -m examples.benchmarks peers --install {environment.folder}",
            )
        command = [str(environment.python), "-I", str(Path(peer_runner.__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)

    def train(self, peer: str, epsilon: object, data: dict[str, Any]) -> tuple[Any, float]:
        """Return the probabilities of the test rows and the seconds of training."""
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "data.npz", **data)
            answer = self._ask({"peer": peer, "epsilon": float(str(epsilon)), "folder": folder})
            if "error" in answer:
                raise DpsqlError(f"{peer} failed: {answer['error']}", hint="leave it out of --peer")
            return np.load(Path(folder) / "probabilities.npy"), float(answer["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        atexit.unregister(self.close)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with suppress(BrokenPipeError):  # it has ended: then there is no answer to read either
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise DpsqlError("the peers' process ended without an answer.", hint="see its message above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def worker(folder: Path) -> Worker:
    """Return this process's worker of an environment."""
    return Worker(Environment(folder))


def find_peers(names: str) -> list[str]:
    """Return the peers of a list separated by commas; `all` is every one of them.

    >>> find_peers("dpebm,diffprivlib-nb")
    ['dpebm', 'diffprivlib-nb']
    """
    peers = list(NAMES) if names == "all" else names.split(",")
    for name in peers:
        if name not in NAMES:
            raise UnknownName("peer", name, NAMES)
    return peers


def unfit(peer: str, table: Table) -> str:
    """Return why a peer cannot learn from a table; nothing where it can."""
    return "it knows two classes only" if peer in BINARY and len(table.schema["classes"]) > 2 else ""


def run_peer(
    table: Table, split: int, *, peer: str, epsilon: object, folder: Path, labelled: int = 100, widen: float = 1
) -> Outcome:
    """Train a peer on nine tenths of a table and measure it on the tenth: the rows that `run_split` takes."""
    train, test = halves(table, split)
    schema = Schema.from_dict(declare_schema(table.schema, null_columns=table.null_columns, widen=widen))
    train = with_labels(train, schema.label, labelled, split)
    train = train.iloc[np.random.default_rng([split, len(train)]).permutation(len(train))]
    train = train[class_numbers(train[schema.label], schema.classes) >= 0]
    probabilities, seconds = worker(folder).train(peer, epsilon, encode_rows(schema, train, test))
    shares = pd.DataFrame(sound(probabilities), index=test.index, columns=list(schema.classes))
    good = score_shares(test[schema.label], shares)
    spent = f"{epsilon} (delta {peer_runner.DELTA:g})" if peer in BINARY else str(epsilon)
    rows = int((class_numbers(test[schema.label], schema.classes) >= 0).sum())
    figures = (good.balanced_accuracy, good.auc, good.log_loss, good.brier, seconds)
    return Outcome(good.accuracy or 0.0, good.majority or 0.0, rows, None, None, spent, *figures)


def sound(shares: Any) -> Any:
    """Return shares without NaN; a row that has none at all is split evenly.

    >>> sound(np.array([[np.nan, np.nan], [0.25, 0.75]])).tolist()
    [[0.5, 0.5], [0.25, 0.75]]
    """
    numbers = np.nan_to_num(shares)
    return np.where(numbers.sum(axis=1, keepdims=True) > 0, numbers, 1 / shares.shape[1])


def encode_rows(schema: Schema, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, Any]:
    """Return rows as numbers and codes of categories, and the public facts that a peer is given."""
    numeric = [isinstance(feature, Numeric) for feature in schema.features]
    return {
        "train": np.stack([column(feature, train[feature.name]) for feature in schema.features], axis=1),
        "test": np.stack([column(feature, test[feature.name]) for feature in schema.features], axis=1),
        "labels": class_numbers(train[schema.label], schema.classes),
        "lower": np.array([_bounds(feature)[0] for feature in schema.features]),
        "upper": np.array([_bounds(feature)[1] for feature in schema.features]),
        "categories": np.array(
            [0 if number else feature.cells - 1 for feature, number in zip(schema.features, numeric, strict=True)]
        ),
        "classes": np.array(len(schema.classes)),
    }


def column(feature: Feature, values: pd.Series) -> Any:
    """Return a column as floats: numbers as they are, NULL as dpsql takes it; a category as its place in the list."""
    if isinstance(feature, Numeric):
        missing = feature.lower if feature.null is None else feature.null
        return pd.to_numeric(values).astype(float).fillna(missing).to_numpy()
    plain = values.astype(object).where(values.notna(), None)
    places = {value: feature.cell(value) for value in plain.unique()}
    return np.array([places[value] for value in plain], dtype=float)


def _bounds(feature: Feature) -> tuple[float, float]:
    """Return the bounds of a number, or of the codes of a category; a category of one value still has a range."""
    return (feature.lower, feature.upper) if isinstance(feature, Numeric) else (0.0, max(1.0, feature.cells - 2.0))
