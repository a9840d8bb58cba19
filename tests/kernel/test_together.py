"""Choosing one split for all leaves of a tree: the utilities of the leaves add up, at the rate of one choice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.compile.count.leaves import EVERY_UNIT
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose
from dpsql.kernel.plan import Sequential, Step
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import axes
from dpsql.trees.grow.splits import two_way
from tests.kernel.helpers import EPSILON, Watched, counted, held, session
from tests.rows import walk
from tests.tables import SCHEMA, UNITS, Row, some_rows

LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
#: A tree of two leaves: value "a" of c goes left, all others right.
FIRST = Level(np.array([0], np.int16), np.array([2], np.uint8), np.array([[2**64 - 2]], np.uint64))
TREE = Forest(axes(SCHEMA), 1, (FIRST,))
SPLITS = two_way(TREE.axes)
ASKED = 12
FAR = 4.0


def alike(forest: Forest = TREE, asked: int = ASKED) -> Candidates:
    """Return the first thresholds of x for every leaf of a forest, alike."""
    weights = np.zeros((forest.leaves, 1, SPLITS.most), np.int64)
    weights[:, 0, :asked] = 1
    return Candidates(SPLITS, np.ones((forest.leaves, 1), np.int16), weights)


def step(nano: int = EPSILON, name: str = "split", *, trees: int = 1, cells: int = 2) -> Step:
    """Return a step that chooses by majority."""
    return Step(name, Choose("majority"), nano, trees=trees, cells=cells)


def plain_utilities(rows: list[tuple[dict[str, object], int, int]], opened: Session) -> list[int]:
    """Return what a majority vote in all children of both leaves gets right, for each threshold, row by row."""
    found = []
    for number in range(ASKED):
        sides: dict[tuple[int, bool], list[int]] = {}
        for row, label, _ in rows:
            cell = SCHEMA.features[1].cell(float("nan") if row["x"] is None else float(str(row["x"])))
            leaf = walk(opened.schema, TREE, row)[0]
            sides.setdefault((leaf, cell > number), []).append(label)
        found.append(sum(max(labels.count(k) for k in range(3)) for labels in sides.values()))
    return found


@LEVELS
def test_the_utilities_of_all_leaves_add_up(schema: Schema) -> None:
    """Summed over the leaves, the exact utility of a split is that of making it in every leaf."""
    database = held(some_rows(60), schema=schema)
    opened = session(database, step())
    scores = opened._rows.scores(TREE, alike(), [EVERY_UNIT], Choose("majority"), shared=False).sum(axis=0)
    assert scores[:ASKED].tolist() == plain_utilities(counted(database, opened), opened)


@LEVELS
def test_one_row_moves_the_sum_by_one_at_most(schema: Schema) -> None:
    """Adding a row raises the summed majority of each split by 0 or 1: as in its own leaf, so in the sum."""
    rows = some_rows(30)
    opened = session(held(rows, schema=schema), step())
    before = opened._rows.scores(TREE, alike(), [EVERY_UNIT], Choose("majority"), shared=False).sum(axis=0)
    for new in ((5000, 4.5, "a", "yes"), (5001, 9.0, None, "no"), (5002, float("nan"), "b", "maybe")):
        held([*rows, new], schema=schema)
        after = opened._rows.scores(TREE, alike(), [EVERY_UNIT], Choose("majority"), shared=False).sum(axis=0)
        assert set((after - before).tolist()) <= {0, 1}


def test_all_leaves_get_the_same_split() -> None:
    """With much epsilon the best split of the sum is chosen in every leaf, though each leaf alone would take another.

    Left of c, x parts the classes at 3 (20 rows); right of it at 6 (30 rows).
    """
    left: list[Row] = [(k, 2.5 if k % 2 else 3.5, "a", "yes" if k % 2 else "no") for k in range(20)]
    right: list[Row] = [(k, 5.5 if k % 2 else 6.5, "b", "yes" if k % 2 else "no") for k in range(30)]
    opened = session(held(left + right), Sequential((step(10**12), step(10**12, "apart"))))
    assert opened.choose("split", TREE, alike(), together=True).tolist() == [5, 5]
    assert opened.choose("apart", TREE, alike()).tolist() == [2, 5]


def _refused() -> dict[str, tuple[Forest, Candidates]]:
    ours = alike()
    other_axis, other_weights, silent = ours.axis.copy(), ours.weights.copy(), ours.weights.copy()
    other_axis[1], silent[1], other_weights[1, 0, 1] = PASS, 0, 5
    two = Forest(TREE.axes, 2, ())
    return {
        "other weights": (TREE, Candidates(SPLITS, ours.axis, other_weights)),
        "a leaf that does not ask": (TREE, Candidates(SPLITS, other_axis, silent)),
        "two trees": (two, alike(two)),
    }


@pytest.mark.parametrize(("forest", "candidates"), _refused().values(), ids=_refused())
def test_only_leaves_of_one_tree_with_the_same_candidates_choose_together(
    forest: Forest, candidates: Candidates
) -> None:
    """What is not alike is refused, unread, and the step is left."""
    database = held(some_rows())
    opened = session(database, step(trees=forest.trees))
    opened._rows._engine = watched = Watched(database.engine)  # type: ignore[assignment]
    with pytest.raises(AllowanceExceeded):
        opened.choose("split", forest, candidates, together=True)
    assert watched.statements == []
    assert repr(opened) == "<Session: 1 of 1 steps left>"


#: Rows for which the summed majority of threshold n is 24 + n: in both leaves one more is right with every cell.
LADDER: list[Row] = [
    *[(k, k + 0.5, "a", "yes") for k in range(ASKED)],
    *[(k, 40.5, "a", "no") for k in range(ASKED)],
    *[(k, 40.5, "b", "no") for k in range(ASKED)],
]


def drawn(schema: Schema, nano: int, times: int = 4000) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the summed utilities of the thresholds, and how often each is chosen; counted once, chosen often."""
    steps = tuple(step(nano, f"split {number}") for number in range(times))
    opened = session(held(LADDER, schema=schema), Sequential(steps))
    scores = opened._rows.scores(TREE, alike(), [EVERY_UNIT], Choose("majority"), shared=False)
    opened._rows.scores = lambda *_, **__: scores  # type: ignore[method-assign]
    chosen = [int(opened.choose(one.name, TREE, alike(), together=True)[0]) for one in steps]
    return scores.sum(axis=0)[:ASKED], np.bincount(chosen, minlength=ASKED)


def distance(utility: NDArray[np.int64], found: NDArray[np.int64], rate: float) -> float:
    """Return how far the mean utility is from that of chances ∝ exp(rate · utility), in standard deviations."""
    chance = np.exp(rate * (utility - utility.max()))
    chance = chance / chance.sum()
    mean = float(chance @ utility)
    deviation = float(np.sqrt(chance @ (utility - mean) ** 2 / found.sum()))
    return abs(float(found @ utility) / found.sum() - mean) / deviation


@LEVELS
def test_choices_follow_the_exponential_mechanism_of_the_sum(schema: Schema) -> None:
    """The rate is that of one choice, epsilon over the rows of a unit: leaves add up utilities, not costs."""
    utility, found = drawn(schema, 300_000_000 * schema.unit.max_rows)
    assert utility.tolist() == [2 * ASKED + 1 + number for number in range(ASKED)]
    assert distance(utility, found, 0.3) < FAR
    assert distance(utility, found, 0.3 * 1.3) > FAR
    assert distance(utility, found, 0.3 / 1.3) > FAR
