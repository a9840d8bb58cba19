"""What labels follow from, and what they cost, is the same on every engine and in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from dpsql.api.database import Database
from tests.conformance.tables import put
from tests.conformance.test_words import ASKED, DECLARED, WORDS
from tests.servers import OPEN_EMPTY


@pytest.fixture(params=sorted(OPEN_EMPTY))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database of each engine with private rows, and the same as public ones."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        for name in ("people", "fresh"):
            put(opened.engine, name, WORDS)
        opened.register("people", {**DECLARED, "classes": ["no", "yes"]} | {"features": FEATURES}, cap=10_000)
        yield opened


FEATURES = {
    "married": {"type": "categorical", "values": ["no", "yes"], "null": "no"},
    "sex": {"type": "categorical", "values": ["male", "female"]},
    "age": {"type": "numeric", "lower": 0, "upper": 64},
}


def test_decisions_curves_and_comparisons_are_those_in_memory(database: Database) -> None:
    """Thresholds, class weights, the curve, the cheapest threshold and comparisons come out of SQL as out of Python."""
    models = [database.train("people", **{**ASKED, "seed": seed}, name=f"m{seed}") for seed in (1, 2)]
    frame, model = pd.DataFrame(WORDS.columns), models[0]
    for decided in ({"threshold": {"yes": 0.3}}, {"class_weight": {"yes": 3}}, {"class_weight": {"no": 5, "yes": 0.5}}):
        counts = model.predict("fresh", key="age", **decided)["prediction"].value_counts().to_dict()
        assert counts == model.predict(frame, **decided).value_counts().to_dict()
    here, there = database.evaluate(model, frame), database.evaluate(model, "fresh")
    pd.testing.assert_frame_equal(here.curve, there.curve)
    costs = [found.cheapest({"yes": 4}) for found in (here, there)]
    assert costs[0].threshold == costs[1].threshold
    assert costs[0].cost.value == pytest.approx(costs[1].cost.value)
    side_by_side = database.compare(models, "fresh").frame
    assert side_by_side["accuracy"].tolist() == pytest.approx(
        [database.evaluate(one, frame).accuracy for one in models]
    )
