"""Made-up rows have the shares that they are made from, wide categories too; public rows are taken as they are."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.models.explain.background import COUNTS, EQUAL, PUBLIC, Background, background
from dpsql.models.explain.facts import Facts, read_facts
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.grid import axes
from tests.tables import small_forest, voting

WIDE = Categorical("zip", tuple(f"z{number}" for number in range(200)))
SCHEMA = Schema("y", ("no", "yes"), (WIDE, Boolean("flag"), Numeric("x", 0, 1)))
RELEASED = voting(small_forest(SCHEMA), 2)


def zips(rows: np.ndarray) -> np.ndarray:
    """Return the cells of the wide category from its two axes."""
    return rows[:, 0] + 64 * rows[:, 1]


def test_made_up_rows_have_the_shares_of_the_counts() -> None:
    """Of a wide category nine tenths of the rows are in the group that has nine tenths of the noisy counts."""
    groups = [[3, 70, 199], [cell for cell in range(201) if cell not in (3, 70, 199)]]
    facts = {"features": {"zip": {"groups": groups, "counts": [[60, 30], [4, 6]]}}}
    found = background(SCHEMA, RELEASED, read_facts(SCHEMA, {"facts": facts}))
    drawn = zips(found.rows(axes(SCHEMA), 200))
    assert found.source == COUNTS
    assert np.isin(drawn, [3, 70, 199]).mean() == pytest.approx(0.9, abs=0.01)
    assert {3, 70, 199} < set(drawn.tolist()) <= set(range(201))


def test_without_anything_declared_values_are_alike() -> None:
    """Each declared value has the same share, and what stands for NULL and unknown values has none."""
    found = background(SCHEMA, RELEASED, Facts())
    assert found.source == EQUAL
    assert found.masses[0][:200] == pytest.approx(np.full(200, 1 / 200))
    assert found.masses[0][200] == found.masses[1][2] == 0
    assert len(set(zips(found.rows(axes(SCHEMA), 200)).tolist())) == 200


def test_features_are_independent() -> None:
    """The order of one feature's values says nothing about another's."""
    rows = Background((np.full(64, 1 / 64), np.full(64, 1 / 64)), "").rows(
        axes(Schema("y", ("a", "b"), (Numeric("u", 0, 1), Numeric("v", 0, 1)))), 256
    )
    assert abs(np.corrcoef(rows.T)[0, 1]) < 0.2


def test_public_rows_are_taken_as_they_are() -> None:
    """Rows and shares are those given, evenly picked where there are too many; no rows are no background."""
    given = np.array([[1, 2, 0, 5], [1, 2, 1, 6], [7, 0, 1, 7], [7, 0, 1, 8]], np.uint8)
    found = background(SCHEMA, RELEASED, Facts(), given)
    assert found.source == PUBLIC
    assert np.flatnonzero(found.masses[0]).tolist() == [7, 129]
    assert found.rows(axes(SCHEMA), 10).tolist() == given.tolist()
    assert found.rows(axes(SCHEMA), 2).tolist() == given[[0, 3]].tolist()
    assert background(SCHEMA, RELEASED, Facts(), given[:0]).source == EQUAL
