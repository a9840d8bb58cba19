"""Models are tagged, renamed and dropped in the same way wherever they are stored."""

from __future__ import annotations

import pytest

from dpsql.api.database import Database
from dpsql.engines.base import Engine
from dpsql.errors import UnknownName
from tests.tables import SCHEMA, model_of, small_forest, voting


def test_models_are_kept_in_order_on_every_engine(engine: Engine) -> None:
    """Tags, a new name, a drop, and a number that no other model gets."""
    db = Database(engine, who="ann")
    released = voting(small_forest(SCHEMA), 2, seed=1)
    for name in ("a", "b"):
        db.add(model_of(released, SCHEMA, name))
    assert db.tag_model("b", "stage=live") == ["stage=live"]
    assert db.rename_model("b", "c").model_id == 2
    assert list(db.models(tag="stage")["name"]) == ["c"]
    db.drop_model("c")
    with pytest.raises(UnknownName):
        db.model("c")
    assert db.add(model_of(released, SCHEMA, "c")).model_id == 3
    assert db.models()["tags"].tolist() == [[], []]
