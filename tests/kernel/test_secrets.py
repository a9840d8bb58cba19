"""Exact counts and ticket keys live between query and mechanism; nothing that a method or a log can hold shows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsql.kernel.operations import Later, LeafLabels, Pick, Size
from dpsql.kernel.plan import Sequential, Step
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import EPSILON, exact_leaf_counts, held, histogram_step, leaf_step, session
from tests.tables import SCHEMA, Row, small_forest, some_rows

FOREST = small_forest(trees=2, depth=2)
CLASSES = len(SCHEMA.classes)


def attributes_of(value: object) -> dict[str, Any]:
    """Return what an object holds, in its dictionary and in its slots."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return getattr(value, "__dict__", {}) | {name: getattr(value, name) for name in slots if hasattr(value, name)}


def reachable(start: object) -> list[Any]:
    """Return everything that attributes, mappings and sequences lead to, engine and modules left out."""
    seen: dict[int, Any] = {}
    open_ends = [start]
    while open_ends:
        value = open_ends.pop()
        if id(value) in seen or type(value).__module__.startswith(
            ("_duckdb", "duckdb", "dpsql.engines", "builtins.type")
        ):
            continue
        seen[id(value)] = value
        if isinstance(value, dict):
            open_ends += list(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            open_ends += list(value)
        elif not isinstance(value, type):
            open_ends += list(attributes_of(value).values())
    return list(seen.values())


def used() -> tuple[Session, np.ndarray[Any, Any]]:
    """Return a session whose steps were all used on shared trees, and the exact counts that it saw."""
    database = held(some_rows(77))
    steps = (
        leaf_step("leaf_counts", FOREST, CLASSES, shared=True),
        histogram_step(FOREST, [0, 1], CLASSES, shared=True),
        Step("labels", LeafLabels(), EPSILON, trees=2, shared=True, cells=FOREST.leaves),
        Step("n", Size(), EPSILON),
    )
    opened = session(database, Sequential(steps))
    opened.leaf_counts("leaves", FOREST)
    opened.histograms("bins", FOREST, [0, 1])
    opened.leaf_labels("labels", FOREST)
    opened.size("n")
    return opened, exact_leaf_counts(database, opened, FOREST, shared=True)


def test_nothing_that_a_session_holds_is_an_exact_count() -> None:
    """After every operation no array that can be reached from the session equals the exact counts or a part of them."""
    opened, exact = used()
    arrays = [value for value in reachable(opened) if isinstance(value, np.ndarray)]
    assert not any(np.array_equal(value, exact) or np.array_equal(value, exact.sum(axis=1)) for value in arrays)
    assert not any(value.dtype.kind in "iu" and value.shape[:1] == exact.shape[:1] for value in arrays)


def test_nothing_that_a_session_holds_is_the_exact_size() -> None:
    """No number that can be reached from the session is the number of rows."""
    opened, exact = used()
    total = int(exact.sum()) // FOREST.trees
    numbers = [value for value in reachable(opened) if isinstance(value, int | np.integer)]
    assert total == 81
    assert total not in numbers


def test_nothing_that_a_session_holds_is_a_number_of_right_rows() -> None:
    """After a pick, narrowed ranges and later steps, neither the session nor its facts hold exact right rows."""
    rows: list[Row] = [(k, float(k % 64), "a", "yes") for k in range(81)]
    forest = Forest(FOREST.axes, 1, ())
    mixtures = Mixtures(
        VotingForest(forest, np.array([[0, 1, 0]])), np.zeros(1, np.int64), np.array([[1], [0]]), np.ones(2, np.int64)
    )
    opened = session(held(rows), Step("rest", Later(), EPSILON))
    opened.later("rest", Step("pick", Pick(), EPSILON, cells=2))
    opened.narrow({"x": (1, 60)})
    opened.pick("pick", mixtures)
    numbers = [value for value in reachable(opened) if isinstance(value, int | np.integer)]
    arrays = [value for value in reachable(opened) if isinstance(value, np.ndarray)]
    assert 81 not in numbers
    assert not any((array == 81).any() for array in arrays)
    assert "81" not in repr(opened)


def test_the_walk_of_these_tests_finds_what_is_kept() -> None:
    """An array put on the session is found: the two tests above can fail."""
    opened, exact = used()
    opened._rows._node_rows = {"inside": [exact]}  # type: ignore[attr-defined]
    assert any(value is exact for value in reachable(opened))


def test_the_text_of_a_session_shows_no_number_of_rows_or_key() -> None:
    """`repr` and `str` of session, rows and tickets are fixed words and public figures."""
    opened, _ = used()
    texts = [repr(opened), str(opened), repr(opened._rows), repr(opened._rows._tickets), f"{attributes_of(opened)}"]
    assert texts[:4] == ["<Session: 0 of 4 steps left>"] * 2 + ["<private rows>", "<Tickets>"]
    assert not any(str(key) in text for key in opened._rows._tickets.keys for text in texts)


def test_a_refusal_shows_public_figures_only() -> None:
    """The error of a refused request names the step and what was declared, no count and no key."""
    opened = session(held(some_rows(77)), leaf_step("leaf_counts", FOREST, CLASSES, shared=True))
    with pytest.raises(AllowanceExceeded) as caught:
        opened.leaf_counts("leaves", small_forest(trees=2, depth=3))
    assert set(vars(caught.value)) == {"message", "hint"}
    assert "81" not in caught.value.message
    assert not any(str(key) in caught.value.message for key in opened._rows._tickets.keys)


def test_each_session_draws_its_own_keys() -> None:
    """Ticket keys are fresh for each session, so that which units share a tree is never the same twice."""
    keys = {session(held(), Step("n", Size(), EPSILON))._rows._tickets.keys for _ in range(20)}
    assert len(keys) == 20
