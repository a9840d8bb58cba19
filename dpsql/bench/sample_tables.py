"""Tables that accuracy can be measured on without a download: scikit-learn's own, and made-up ones that always work.

The bounds of scikit-learn's tables are declared here as round numbers, from what the columns mean and from the ranges
that their documentation prints. They are public assumptions, as an owner's bounds are.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpsql.api import census

LABEL = "label"
#: Rows of each made-up table.
MADE_UP_ROWS = 4000
#: Seed of the made-up rows: every run measures on the same tables.
MADE_UP_SEED = 1
#: Features of the table `corners`, from 0 to 1; the class follows from the first two.
CORNERS_FEATURES = 6
#: Share of the rows of `corners` whose class is drawn at random.
CORNERS_NOISE = 0.1
#: Lower and upper bound of each column of scikit-learn's tables, in its order.
BOUNDS: Mapping[str, tuple[tuple[float, float], ...]] = {
    # centimetres
    "iris": ((4, 8), (2, 5), (1, 7), (0, 3)),
    # alcohol, malic acid, ash, alcalinity, magnesium, phenols, flavanoids, nonflavanoids, proanthocyanins, colour,
    # hue, diluted wines, proline
    "wine": (
        (11, 15), (0, 6), (1, 4), (10, 30), (70, 170), (0, 4), (0, 6), (0, 1), (0, 4), (1, 13), (0, 2), (1, 4),
        (250, 1750),
    ),
    # radius, texture, perimeter, area, smoothness, compactness, concavity, concave points, symmetry, fractal
    # dimension of a cell nucleus: their means, standard errors and largest values
    "breast_cancer": (
        (5, 30), (5, 40), (40, 200), (100, 2600), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.25), (0.1, 0.35), (0.04, 0.1),
        (0, 3), (0, 5), (0, 22), (0, 550), (0, 0.04), (0, 0.15), (0, 0.4), (0, 0.06), (0, 0.08), (0, 0.03),
        (5, 40), (10, 50), (50, 260), (150, 4300), (0, 0.25), (0, 1.1), (0, 1.3), (0, 0.3), (0.1, 0.7), (0.05, 0.21),
    ),
    # grey levels of 8 by 8 pixels
    "digits": ((0, 16),) * 64,
}  # fmt: skip
MADE_UP = ("census", "corners")


@dataclass(frozen=True, eq=False)
class SampleTable:
    """A public table: its name, its schema as plain values, all its rows."""

    name: str
    schema: Mapping[str, Any]
    frame: pd.DataFrame


def scikit_learn_is_here() -> bool:
    """Whether scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def default_names() -> tuple[str, ...]:
    """Return the tables to measure on where nobody names any: scikit-learn's, or the made-up ones without it."""
    return tuple(BOUNDS) if scikit_learn_is_here() else MADE_UP


def load_sample(name: str) -> SampleTable:
    """Return the table of a name in `BOUNDS` (which needs scikit-learn) or in `MADE_UP`.

    >>> load_sample("corners").frame.shape
    (4000, 7)
    """
    if name in BOUNDS:
        return _bundled_table(name)
    return _census() if name == "census" else _corners()


def _bundled_table(name: str) -> SampleTable:
    """Return one of scikit-learn's tables; its columns are numbered, its classes are texts."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    bundle = getattr(datasets, f"load_{name}")()
    columns = [f"x{place}" for place in range(len(BOUNDS[name]))]
    features = {
        column: {"type": "numeric", "lower": lower, "upper": upper}
        for column, (lower, upper) in zip(columns, BOUNDS[name], strict=True)
    }
    classes = [str(name) for name in bundle.target_names]
    labels = np.array(classes, object)[bundle.target]
    frame = pd.DataFrame(bundle.data, columns=columns).assign(**{LABEL: labels})
    return SampleTable(name, {"label": LABEL, "classes": classes, "features": features}, frame)


def _census() -> SampleTable:
    """Return the rows of `dpsql demo`: people with numbers and categories."""
    return SampleTable("census", census.SCHEMA, census.rows(MADE_UP_ROWS, seed=MADE_UP_SEED))


def _corners() -> SampleTable:
    """Return uniform numbers; the class says in which quarter of the square of the first two a row lies."""
    generator = np.random.default_rng(MADE_UP_SEED)
    numbers = generator.random((MADE_UP_ROWS, CORNERS_FEATURES))
    corner = 2 * (numbers[:, 0] > 0.5) + (numbers[:, 1] > 0.5)
    random = generator.random(MADE_UP_ROWS) < CORNERS_NOISE
    classes = np.array(["south-west", "north-west", "south-east", "north-east"], object)
    labels = classes[np.where(random, generator.integers(0, len(classes), MADE_UP_ROWS), corner)]
    columns = [f"x{place}" for place in range(CORNERS_FEATURES)]
    features = {column: {"type": "numeric", "lower": 0, "upper": 1} for column in columns}
    frame = pd.DataFrame(numbers, columns=columns).assign(**{LABEL: labels})
    return SampleTable("corners", {"label": LABEL, "classes": list(classes), "features": features}, frame)
