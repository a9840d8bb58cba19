"""Trains other libraries' private classifiers. The bench runs it with the python of the peers' own environment.

It imports nothing of dpsql, and dpsql takes nothing from it but the names of the peers. It reads requests from stdin,
one JSON value on a line: the peer, epsilon and a folder. In the folder lies `data.npz`: `train` and `test` (a number,
or the code of a category, for each row and feature), `labels` (codes of the training rows), `lower` and `upper` (public
bounds of each feature), `categories` (how many each feature has, 0 for a number) and `classes` (how many). It writes
`probabilities.npy` for the rows of `test` and answers with one line: the seconds of training, or an error.

A warning about privacy is an error: a peer that reads bounds or classes from the rows would not be a fair one.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

#: DP-EBM is private up to this chance; the other peers have none.
DELTA = 1e-6


def forest(data: Mapping[str, Any], epsilon: float) -> tuple[Any, Any]:
    """Return diffprivlib's random forest (10 trees of depth 5) and how it reads rows: codes within bounds."""
    models: Any = importlib.import_module("diffprivlib.models")
    bounds = (data["lower"], data["upper"])
    return models.RandomForestClassifier(epsilon=epsilon, bounds=bounds, classes=np.arange(data["classes"])), ordinal


def naive_bayes(data: Mapping[str, Any], epsilon: float) -> tuple[Any, Any]:
    """Return diffprivlib's Gaussian naive Bayes and how it reads rows: codes within bounds."""
    models: Any = importlib.import_module("diffprivlib.models")
    return models.GaussianNB(epsilon=epsilon, bounds=(data["lower"], data["upper"])), ordinal


def regression(data: Mapping[str, Any], epsilon: float) -> tuple[Any, Any]:
    """Return diffprivlib's logistic regression and how it reads rows: a feature adds at most 1 to the squared norm."""
    models: Any = importlib.import_module("diffprivlib.models")
    return models.LogisticRegression(epsilon=epsilon, data_norm=math.sqrt(len(data["lower"]))), one_hot


def boosting(data: Mapping[str, Any], epsilon: float) -> tuple[Any, Any]:
    """Return the DP-EBM of interpret and how it reads rows: categories as text."""
    privacy: Any = importlib.import_module("interpret.privacy")
    kinds = ["nominal" if count else "continuous" for count in data["categories"]]
    bounds = {
        place: (float(data["lower"][place]), float(data["upper"][place]))
        for place, count in enumerate(data["categories"])
        if not count
    }
    model = privacy.DPExplainableBoostingClassifier(
        feature_types=kinds, privacy_bounds=bounds, epsilon=epsilon, delta=DELTA, n_jobs=1
    )
    return model, texts


PEERS: dict[str, Callable[[Mapping[str, Any], float], tuple[Any, Any]]] = {
    "diffprivlib-forest": forest,
    "diffprivlib-nb": naive_bayes,
    "diffprivlib-lr": regression,
    "dpebm": boosting,
}


def ordinal(rows: Any, data: Mapping[str, Any]) -> Any:
    """Return rows as they are, clamped to the bounds."""
    return np.clip(rows, data["lower"], data["upper"])


def one_hot(rows: Any, data: Mapping[str, Any]) -> Any:
    """Return numbers scaled from 0 to 1 by their bounds, and a column for each category.

    >>> data = {"lower": np.array([0, 0]), "upper": np.array([10, 1]), "categories": np.array([0, 2])}
    >>> one_hot(np.array([[5, 1], [20, 0]]), data).tolist()
    [[0.5, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    scaled = (ordinal(rows, data) - data["lower"]) / (data["upper"] - data["lower"])
    columns = [
        (rows[:, [place]] == np.arange(count)).astype(float) if count else scaled[:, [place]]
        for place, count in enumerate(data["categories"])
    ]
    return np.hstack(columns)


def texts(rows: Any, data: Mapping[str, Any]) -> Any:
    """Return numbers as they are, clamped, and the codes of categories as text."""
    encoded = ordinal(rows, data).astype(object)
    for place in np.flatnonzero(data["categories"]):
        encoded[:, place] = [str(int(code)) for code in rows[:, place]]
    return encoded


def train(peer: str, epsilon: float, data: Mapping[str, Any]) -> tuple[Any, float]:
    """Return the probabilities of the test rows, a column for each class, and the seconds of training."""
    model, encode = PEERS[peer](data, epsilon)
    rows = encode(data["train"], data)
    started = time.perf_counter()
    model.fit(rows, data["labels"])
    seconds = time.perf_counter() - started
    probabilities = np.zeros((len(data["test"]), int(data["classes"])))
    probabilities[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(encode(data["test"], data))
    return probabilities, seconds


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what one request asks and return what to answer."""
    folder = Path(request["folder"])
    with np.load(folder / "data.npz") as file:
        data = dict(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*(?i:priva).*")
        try:
            probabilities, seconds = train(request["peer"], request["epsilon"], data)
        except (ImportError, ValueError, ArithmeticError, RuntimeError, Warning) as error:
            return {"error": f"{type(error).__name__}: {error}"}
    np.save(folder / "probabilities.npy", probabilities)
    return {"seconds": seconds}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer each line until there are no more."""
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not be taken for an answer
    serve(sys.stdin, answers)
