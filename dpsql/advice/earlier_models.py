"""What models that were released before say of a table's declared ranges: for free, from their certificates alone."""

from __future__ import annotations

from dpsql.engines.base import Engine
from dpsql.kernel.datasets.dataset import Dataset
from dpsql.models import store
from dpsql.models.explain.crowded import CrowdedRange, crowded_ranges

#: The most models that are looked at, newest first.
MOST_MODELS = 5


def known_crowded_ranges(engine: Engine, dataset: Dataset) -> tuple[CrowdedRange, ...]:
    """Return the crowded ranges that the newest model knows of, as far as they are still declared as they were then."""
    names = [row["name"] for row in store.list_models(engine) if row["table_name"] == dataset.table]
    declared = {feature.name: (feature.lower, feature.upper) for feature in dataset.schema.numeric}
    for name in reversed(names[-MOST_MODELS:]):
        model = store.load_model(engine, name)
        if model.certificate.get("dataset") != dataset.id or "facts" not in model.certificate:
            continue
        ranges = crowded_ranges(model.schema, model.certificate)
        return tuple(crowded for crowded in ranges if declared.get(crowded.feature) == crowded.declared)
    return ()
