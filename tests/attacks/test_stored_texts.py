"""Stored texts that mean words come from the owner's file and meet private cells: neither can make a query fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.schema import Categorical, Schema
from dpsql.trees.grid import feature_cells
from tests.conformance.tables import put
from tests.hostile import HOSTILE
from tests.rows import Table
from tests.servers import OPEN_EMPTY

#: Injections, quotes, comments and odd letters, each the stored text of one of two words.
TEXTS = [text for text in HOSTILE if len(text) < 100][:60]
SYNONYMS = tuple((text, ("no", "yes")[place % 2]) for place, text in enumerate(TEXTS))
FEATURE = Categorical("f", ("no", "yes"), synonyms=SYNONYMS)
CELLS: list[Any] = [*TEXTS, "no", "yes", "NO", "", " no", None]


@pytest.fixture(params=sorted(OPEN_EMPTY))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database of each engine with hostile texts as features and as labels."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        put(opened.engine, "t", Table({"f": "VARCHAR", "y": "VARCHAR"}, {"f": CELLS, "y": CELLS[::-1]}))
        yield opened


def test_hostile_stored_texts_are_only_texts(database: Database) -> None:
    """The counts of every class are those that Python counts, cell by cell, on every engine."""
    database.register("t", Schema("y", ("no", "yes"), (FEATURE,), class_synonyms=SYNONYMS), cap=10_000)
    model = database.train("t", method="rdt", epsilon=2000, trees=1, depth=1)
    classes = feature_cells(Categorical("y", ("no", "yes"), synonyms=SYNONYMS), CELLS[::-1])
    assert model.released.weights.sum(axis=0).tolist() == [int((classes == 0).sum()), int((classes == 1).sum())]
