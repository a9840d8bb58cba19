"""Explains a released model: sweeps its features, groups their values, and writes a profile of each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.models.explain import facts as released_facts
from dpsql.models.explain.background import background
from dpsql.models.explain.beyond_chance import counts_beyond_chance, total_variance
from dpsql.models.explain.class_profiles import Evidence, evidence, is_drowned, number_profiles, profiles
from dpsql.models.explain.crowded import crowded_ranges
from dpsql.models.explain.explanation_values import ClassProfile, Effect, Learned
from dpsql.models.explain.facts import Facts
from dpsql.models.explain.groups import counted_groups, predicted_groups
from dpsql.models.explain.sweep import Swept, sweep
from dpsql.models.model import ReleasedModel, lookup_note
from dpsql.schema import Dated, Feature
from dpsql.trees.tree_count import trees_of_one_feature

Reals = NDArray[np.float64]


def explain_model(model: ReleasedModel, rows: pd.DataFrame | None = None) -> Learned:
    """Return what a model learned, from its forest, schema and certificate. Charges nothing.

    Public `rows` with the model's features, if there are any, show better than any release how often values occur.
    """
    schema, released = model.schema, model.released
    facts = released_facts.read_facts(schema, model.certificate)
    behind = background(schema, released, facts, None if rows is None else model.cells(rows))
    swept = sweep(schema, released, behind)
    middle = _middle(swept)
    shares = middle if facts.noisy_classes is None else facts.noisy_classes / facts.noisy_classes.sum()
    total = sum(sweep_of.moved for sweep_of in swept)
    effects = [
        _effect(feature, sweep_of, facts, shares, sweep_of.moved / total if total > 0 else 0.0)
        for feature, sweep_of in zip(schema.features, swept, strict=True)
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
        of_one_feature=trees_of_one_feature(released.forest),
        leaves=released.forest.leaves,
        epsilon=str(card.get("epsilon", "unknown")),
        neighbours=str(card.get("neighbours", schema.unit.neighbours)),
        private=bool(card.get("private", True)),
        effects=tuple(effects[position] for position in order),
        background=behind.source,
        profiles=_profiles(model, effects, facts, middle, shares),
        looked_up=lookup_note(card),
        crowded=crowded_ranges(schema, card),
    )


def _middle(swept: Sequence[Swept]) -> Reals:
    """Return the average prediction over the background."""
    return np.mean([sweep_of.mass @ sweep_of.average for sweep_of in swept], axis=0)


def _effect(feature: Feature, swept: Swept, facts: Facts, shares: Reals, importance: float) -> Effect:
    counts = facts.features.get(feature.name)
    unit = feature.unit if isinstance(feature, Dated) else ""
    if counts is None:
        return Effect(feature.name, importance, predicted_groups(feature, swept), read=swept.read, unit=unit)
    rows = max(float(np.maximum(counts.noisy_counts, 0).sum()), 1.0)
    groups, lost = counted_groups(feature, counts, rows), is_drowned(counts, shares)
    return Effect(feature.name, importance, groups, read=swept.read, drowned=lost, counted=True, unit=unit)


def _profiles(
    model: ReleasedModel, effects: Sequence[Effect], facts: Facts, middle: Reals, shares: Reals
) -> tuple[ClassProfile, ...]:
    schema = model.schema
    if schema.target is not None:
        moved = [
            Evidence(effect, np.array([group.values for group in effect.groups]) - middle, middle) for effect in effects
        ]
        return number_profiles(schema, moved)
    pieces = []
    variance = total_variance(facts)
    for feature, effect in zip(schema.features, effects, strict=True):
        counts, named = facts.features.get(feature.name), None
        if counts is not None:
            many = len(facts.features)
            named = counts_beyond_chance(feature, counts, shares, features=many, share_variance=variance)
        pieces.append(evidence(effect, named, shares if effect.counted else middle))
    return profiles(schema, pieces, shares)
