"""Models made by hand, as the default method leaves them: one-feature trees of log-lifts, and noisy counts as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.models.usable_model import Model
from dpsql.schema import CELLS, Feature, Numeric, Schema
from dpsql.trees.forest import Forest, Level, bits
from dpsql.trees.grid import axes, digits, feature_cells
from dpsql.trees.voting import VotingForest

NAT = 1000


class InNats(VotingForest):
    """A forest whose scores are log-scores, NAT points to the nat."""

    nat = NAT


def in_nats(forest: Forest, weights: NDArray[np.int64]) -> VotingForest:
    """Return a forest of log-scores, whether or not VotingForest has a field for it."""
    if "nat" in VotingForest.__dataclass_fields__:
        return VotingForest(forest, weights, nat=NAT)
    return InNats(forest, weights)


def card(released: VotingForest, **more: Any) -> dict[str, Any]:
    """Return a certificate that fits a forest."""
    known = {"epsilon": "1", "created_at": "2026-01-01T00:00:00+00:00", "neighbours": "add or remove one row"}
    return {**known, "private": True, "digest": released.digest(), **more}


def stumps(schema: Schema, groups: Sequence[Sequence[Sequence[int]]], weights: NDArray[np.int64]) -> VotingForest:
    """Return one tree for each feature (all of one digit), which sends each group of cells to a leaf of its own."""
    slots = np.zeros((len(groups), CELLS), np.int64)
    for tree, own in enumerate(groups):
        for slot, cells in enumerate(own):
            slots[tree, list(cells)] = slot
    arity = np.array([len(own) for own in groups], np.uint8)
    planes = np.stack([bits((slots >> plane & 1).astype(bool)) for plane in range(int(arity.max()).bit_length())])
    level = Level(np.arange(len(groups), dtype=np.int16), arity, planes)
    return in_nats(Forest(axes(schema), len(groups), (level,)), weights)


def naive_bayes(schema: Schema, frame: pd.DataFrame, *, scale: float, seed: int = 1) -> Model:
    """Return a naive-Bayes model with facts, whose counts carry Laplace noise of this scale for each cell and class."""
    assert all(digits(feature) == 1 for feature in schema.features)
    generator = np.random.default_rng(seed)
    number = frame[schema.label].map({name: place for place, name in enumerate(schema.classes)}).to_numpy()
    rows = np.bincount(number, minlength=len(schema.classes)).astype(float)
    groups, facts, weights = [], {}, []
    for place, feature in enumerate(schema.features):
        own, counts = _counted(feature, frame, number, len(schema.classes), scale, generator)
        groups.append(own)
        facts[feature.name] = {"groups": own, "counts": counts.round().tolist()}
        shares = (np.maximum(counts, 0) + 1) / (np.maximum(counts, 0) + 1).sum(axis=0)
        lift = np.log(shares / ((np.maximum(counts, 0).sum(axis=1) + 1) / np.maximum(counts, 0).sum())[:, None])
        weights.append(lift + (np.log(rows / rows.sum()) if place == 0 else 0.0))
    released = stumps(schema, groups, np.rint(NAT * np.concatenate(weights)).astype(np.int64))
    classes = dict(zip(schema.classes, (rows + generator.laplace(0, scale, len(rows))).round().tolist(), strict=True))
    stored = {"classes": classes, "features": facts, "scale": scale}
    return Model("made", "auto", "people", schema, released, card(released, facts=stored))


def _counted(
    feature: Feature, frame: pd.DataFrame, number: NDArray[np.int64], classes: int, scale: float, generator: Any
) -> tuple[list[list[int]], NDArray[np.float64]]:
    cells = feature_cells(feature, frame[feature.name])
    exact = np.zeros((feature.cells, classes))
    np.add.at(exact, (cells, number), 1)
    noisy = exact + generator.laplace(0, scale, exact.shape)
    wide = 1 if not isinstance(feature, Numeric) else max(1, feature.cells // 8)
    own = [list(range(first, min(first + wide, feature.cells))) for first in range(0, feature.cells, wide)]
    return own, np.stack([noisy[group].sum(axis=0) for group in own])


def facts_of(model: Model) -> Mapping[str, Any]:
    """Return the facts of a model."""
    found: Mapping[str, Any] = model.certificate["facts"]
    return found
