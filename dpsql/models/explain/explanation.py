"""Reads a released model: sweeps it, gathers groups, writes profiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.models.explain import facts as released_facts
from dpsql.models.explain.background import background
from dpsql.models.explain.class_profiles import Evidence, drowned, evidence, number_profiles, profiles
from dpsql.models.explain.explanation_values import Effect, Learned, Profile
from dpsql.models.explain.facts import Facts
from dpsql.models.explain.groups import counted, predicted
from dpsql.models.explain.sweep import Swept, sweep
from dpsql.models.model import ReleasedModel
from dpsql.schema import Feature

Reals = NDArray[np.float64]


def explain(model: ReleasedModel, rows: pd.DataFrame | None = None) -> Learned:
    """Return what a model learned, from its forest, schema and certificate. Charges nothing.

    Public `rows` with the model's features, if there are some, say what rows look like better than anything released.
    """
    schema, released = model.schema, model.released
    facts = released_facts.read(schema, model.certificate)
    behind = background(schema, released, facts, None if rows is None else model.cells(rows))
    swept = sweep(schema, released, behind)
    middle = _middle(swept)
    shares = middle if facts.noisy_classes is None else facts.noisy_classes / facts.noisy_classes.sum()
    total = sum(one.moved for one in swept)
    effects = [
        _effect(feature, one, facts, shares, one.moved / total if total > 0 else 0.0)
        for feature, one in zip(schema.features, swept, strict=True)
    ]
    order = sorted(range(len(effects)), key=lambda position: -effects[position].importance)
    card = model.certificate
    return Learned(
        model=model.name,
        method=model.method,
        table=model.table,
        label=schema.label,
        classes=schema.classes,
        target=None if schema.target is None else str(schema.target),
        trees=released.forest.trees,
        leaves=released.forest.leaves,
        epsilon=str(card.get("epsilon", "unknown")),
        neighbours=str(card.get("neighbours", schema.unit.neighbours)),
        private=bool(card.get("private", True)),
        effects=tuple(effects[position] for position in order),
        background=behind.source,
        profiles=_profiles(model, effects, facts, middle, shares),
    )


def _middle(swept: Sequence[Swept]) -> Reals:
    """Return the average prediction over the background."""
    return np.mean([one.mass @ one.average for one in swept], axis=0)


def _effect(feature: Feature, swept: Swept, facts: Facts, shares: Reals, importance: float) -> Effect:
    counts = facts.features.get(feature.name)
    if counts is None:
        return Effect(feature.name, importance, predicted(feature, swept), read=swept.read)
    rows = max(float(np.maximum(counts.noisy_counts, 0).sum()), 1.0)
    groups, lost = counted(feature, counts, rows), drowned(counts, shares)
    return Effect(feature.name, importance, groups, read=swept.read, drowned=lost, counted=True)


def _profiles(
    model: ReleasedModel, effects: Sequence[Effect], facts: Facts, middle: Reals, shares: Reals
) -> tuple[Profile, ...]:
    schema = model.schema
    if schema.target is not None:
        moved = [Evidence(one, np.array([group.values for group in one.groups]) - middle, middle) for one in effects]
        return number_profiles(schema, moved)
    found = []
    for one in effects:
        counts = facts.features.get(one.feature)
        found.append(evidence(one, counts, shares if one.counted else middle))
    return profiles(schema, found, shares)
