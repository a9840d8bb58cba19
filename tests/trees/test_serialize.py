"""Forests as columns and as JSON: what is stored comes back the same, what is damaged is a SchemaError."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Numeric, Schema
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.serialize import from_columns, from_json, leaf_columns, node_columns, to_json
from dpsql.trees.voting import VotingForest
from tests.rows import any_forest, random_table, schemas
from tests.tables import SCHEMA, small_forest, voting

SEEDS = st.integers(0, 2**32)


def drawn(schema: Schema, seed: int, depth: int, most: int) -> VotingForest:
    """Return an irregular forest with random votes."""
    forest = any_forest(axes(schema), trees=1 + seed % 4, depth=depth, seed=seed)
    return voting(forest, len(schema.classes), seed=seed, most=most)


def same(schema: Schema, first: VotingForest, second: VotingForest, seed: int) -> bool:
    """Whether two forests have one digest, the same votes, and score random rows alike."""
    rows = grid_cells(schema, random_table(schema, 10, seed).columns)
    return (
        first.digest() == second.digest()
        and np.array_equal(first.weights, second.weights)
        and np.array_equal(first.scores(rows), second.scores(rows))
    )


@settings(max_examples=40)
@given(schema=schemas(most=8), seed=SEEDS, depth=st.integers(0, 3), most=st.integers(1, 9))
def test_columns_come_back_the_same(schema: Schema, seed: int, depth: int, most: int) -> None:
    """Taken apart into columns and put together again, a forest is the same."""
    released = drawn(schema, seed, depth, most)
    back = from_columns(schema, released.forest.trees, node_columns(released.forest), leaf_columns(released))
    assert same(schema, released, back, seed)


@settings(max_examples=40)
@given(schema=schemas(most=8), seed=SEEDS, depth=st.integers(0, 3), most=st.integers(1, 9))
def test_json_comes_back_the_same(schema: Schema, seed: int, depth: int, most: int) -> None:
    """Written as JSON text and read again, a forest is the same."""
    released = drawn(schema, seed, depth, most)
    assert same(schema, released, from_json(schema, json.loads(json.dumps(to_json(released)))), seed)


@settings(max_examples=15)
@given(schema=schemas(most=8), seed=SEEDS)
def test_grown_forests_come_back_the_same(schema: Schema, seed: int) -> None:
    """The forests that training grows, splits of many groups included, survive columns and JSON."""
    forest = random_forest(axes(schema), trees=2, depth=3, seed=seed, branches=64, limit=5000)
    released = voting(forest, len(schema.classes), seed=seed)
    back = from_columns(schema, 2, node_columns(forest), leaf_columns(released))
    assert same(schema, released, back, seed)
    assert same(schema, released, from_json(schema, to_json(released)), seed)


def test_every_leaf_has_a_row() -> None:
    """A leaf without a vote is stored with weight 0, so that SQL does not lose the rows that reach it."""
    forest = small_forest()
    columns = leaf_columns(VotingForest(forest, np.zeros((forest.leaves, 3), np.int64)))
    assert columns["leaf"].tolist() == list(range(forest.leaves))
    assert not columns["weight"].any()


def put(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change: the value at a path is replaced."""

    def change(stored: Any) -> None:
        for key in path[:-1]:
            stored = stored[key]
        stored[path[-1]] = to

    return change


def remove(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change: what is at a path is taken away."""

    def change(stored: Any) -> None:
        for key in path[:-1]:
            stored = stored[key]
        del stored[path[-1]]

    return change


DAMAGE = {
    **{f"no {key}": remove(key) for key in ("trees", "levels", "leaves")},
    **{f"no {key}": remove("levels", 0, key) for key in ("axis", "arity", "planes")},
    **{f"no {key}": remove("leaves", key) for key in ("leaf", "class", "weight")},
    **{f"trees {bad}": put("trees", to=bad) for bad in (0, -1, 4, 10**7, 10**400, "x", None, [], 1e999, float("nan"))},
    **{f"levels {bad}": put("levels", to=bad) for bad in (None, 3, "x", [None], [{}], {"a": 1}, [[]])},
    **{f"leaves {bad}": put("leaves", to=bad) for bad in (None, 3, "x", [], {})},
    **{f"axis {bad}": put("levels", 0, "axis", 0, to=bad) for bad in (-2, 2, 1.5, 10**6, 10**30, "x", None, [1])},
    **{f"arity {bad}": put("levels", 0, "arity", 0, to=bad) for bad in (0, 1, 3, 65, -1, 10**30, "x", None)},
    **{f"plane {bad}": put("levels", 0, "planes", 0, 0, to=bad) for bad in ("-1", "1" + "0" * 16, "x", "", None, 5)},
    "a plane more that leads nowhere": lambda stored: stored["levels"][0]["planes"].append(["f"] * 3),
    "seven planes": lambda stored: stored["levels"][0].update(planes=[["0"] * 3] * 7),
    "no plane": put("levels", 0, "planes", to=[]),
    "flat planes": put("levels", 0, "planes", to=["0", "0", "0"]),
    "deep axis": put("levels", 0, "axis", to=[[0], [0], [0]]),
    "a level twice": lambda stored: stored["levels"].append(stored["levels"][0]),
    "a level missing": lambda stored: stored["levels"].pop(0),
    **{f"leaf {bad}": put("leaves", "leaf", 0, to=bad) for bad in (-1, 10**6, 10**30, "x", None)},
    **{f"class {bad}": put("leaves", "class", 0, to=bad) for bad in (-1, 3, "x", None)},
    **{f"weight {bad}": put("leaves", "weight", 0, to=bad) for bad in (-(2**41), 2**41, 10**30, "x", None)},
    "a short column": lambda stored: stored["leaves"]["weight"].pop(),
    "a single number": put("leaves", "weight", to=1),
    "a deep column": lambda stored: stored["leaves"].update({k: [v] for k, v in stored["leaves"].items()}),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_json_is_refused(damage: Callable[[dict[str, Any]], None]) -> None:
    """Whatever is missing, out of range or of another kind is a SchemaError, never another exception."""
    stored = copy.deepcopy(to_json(voting(small_forest(), 3)))
    damage(stored)
    with pytest.raises(SchemaError):
        from_json(SCHEMA, stored)


def test_a_forest_too_large_for_memory_is_refused() -> None:
    """A few bytes that ask for billions of weights are refused before they are laid out."""
    schema = Schema("y", tuple(map(str, range(1000))), (Numeric("x", 0, 1),))
    with pytest.raises(SchemaError):
        from_json(schema, {"trees": 10**6, "levels": [], "leaves": {"leaf": [], "class": [], "weight": []}})


@pytest.mark.parametrize(("column", "bad"), [("axis", 5), ("arity", 0), ("arity", 9), ("level", 7), ("plane_1", 1)])
def test_damaged_columns_are_refused(column: str, bad: int) -> None:
    """Node tables that were edited are a SchemaError, not a wrong prediction."""
    released = voting(small_forest(), 3)
    nodes = node_columns(released.forest)
    nodes[column] = nodes[column].copy()
    nodes[column][0] = bad
    with pytest.raises(SchemaError):
        from_columns(SCHEMA, released.forest.trees, nodes, leaf_columns(released))
