"""Forests as plain columns (for the model tables) and as plain JSON values (for export), and back again.

What is read back is checked in full: a file or a table may have been edited, and a broken forest must be an error here,
not a wrong prediction later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsql.errors import SchemaError
from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import axes, shift, word
from dpsql.trees.voting import VotingForest

#: Bit planes of a stored node: 2^6 = 64 children at most.
PLANES = 6
#: The most leaves × classes of a model that is read back: as many as the methods' `limit` allows.
LARGEST_GRID = 2**26
Columns = dict[str, np.ndarray[Any, Any]]


def node_columns(forest: Forest) -> Columns:
    """Return all nodes of all levels as columns of `dpsql.model_node` (without the model's id)."""
    parts = [_level_columns(number, level) for number, level in enumerate(forest.levels)]
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def leaf_columns(released: VotingForest) -> Columns:
    """Return the weights of each leaf as columns of `dpsql.model_leaf`.

    Where each leaf has a weight other than 0 for one class at most, that weight alone is stored (a zero for the first
    class where there is none). Otherwise all weights are stored: a class of weight 0 must still win against one with a
    negative score, and it has a probability of its own where scores are log-probabilities.
    """
    weights = released.weights
    speaks = weights != 0
    silent = ~speaks.any(axis=1, keepdims=True) & (np.arange(weights.shape[1]) == 0)
    leaf, label = np.nonzero(speaks | silent if one_vote_each(released) else np.ones_like(speaks))
    return {"leaf": leaf.astype(np.int32), "class": label.astype(np.int16), "weight": weights[leaf, label]}


def one_vote_each(released: VotingForest) -> bool:
    """Whether scores are votes, and each leaf has one weight above 0 at most and none below: one row is enough."""
    weights = released.weights
    return bool(not released.nat and weights.min(initial=0) >= 0 and (weights != 0).sum(axis=1).max(initial=0) <= 1)


def from_columns(schema: Schema, trees: int, nodes: Columns, leaves: Columns, *, nat: int = 0) -> VotingForest:
    """Return the forest that `node_columns` and `leaf_columns` wrote. Nodes are in order of level and number."""
    levels = []
    depth = int(nodes["level"].max(initial=-1)) + 1 if nodes else 0
    for number in range(depth):
        rows = np.flatnonzero(nodes["level"] == number)
        planes = np.stack([nodes[f"plane_{plane}"][rows] for plane in range(PLANES)]).astype(np.uint64)
        levels.append(
            Level(
                nodes["axis"][rows].astype(np.int16), nodes["arity"][rows].astype(np.uint8), _drop_empty_planes(planes)
            )
        )
    forest = Forest(axes(schema), trees, tuple(levels))
    return _voting_forest(forest, schema.leaf_values, leaves, nat)


def to_json(released: VotingForest) -> dict[str, Any]:
    """Return the forest as plain values. Bit planes are written in hexadecimal, leaves as (class, weight) columns."""
    levels = [
        {
            "axis": level.axis.tolist(),
            "arity": level.arity.tolist(),
            "planes": [[f"{mask:x}" for mask in plane.tolist()] for plane in level.planes],
        }
        for level in released.forest.levels
    ]
    leaves = {name: column.tolist() for name, column in leaf_columns(released).items()}
    nat = {"nat": released.nat} if released.nat else {}
    return {"trees": released.forest.trees, **nat, "levels": levels, "leaves": leaves}


def from_json(schema: Schema, stored: Mapping[str, Any]) -> VotingForest:
    """Return the forest that `to_json` wrote, or a SchemaError that says what is wrong with it."""
    try:
        trees, nat = int(stored["trees"]), stored.get("nat", 0)
        levels = tuple(_json_level(level) for level in stored["levels"])
        leaves = {name: _whole_numbers(stored["leaves"][name]) for name in ("leaf", "class", "weight")}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise SchemaError("the model file is damaged: its forest cannot be read.") from None
    if not 1 <= trees <= 10**6 or len({len(column) for column in leaves.values()}) != 1:
        raise SchemaError("the model file is damaged: its forest has no sensible size.")
    forest = Forest(axes(schema), trees, levels)
    if forest.leaves * schema.leaf_values > LARGEST_GRID:
        raise SchemaError("the model file is damaged: its forest is larger than any that dpsql releases.")
    return _voting_forest(forest, schema.leaf_values, leaves, nat)


def check_forest(forest: Forest) -> None:
    """Raise SchemaError unless every level fits the one above and every cell of a node goes to one of its children."""
    width = forest.trees
    for level in forest.levels:
        if not (len(level.axis) == len(level.arity) == level.planes.shape[1] == width):
            raise SchemaError("the model is damaged: a level does not fit the one above it.")
        if level.axis.min() < PASS or level.axis.max() >= len(forest.axes) or not _arity_in_range(level.arity):
            raise SchemaError("the model is damaged: a split reads a feature that is not in its schema.")
        if not _sends_every_cell_on(level):
            raise SchemaError("the model is damaged: a split sends a value nowhere.")
        width = level.width


def _voting_forest(forest: Forest, classes: int, leaves: Columns, nat: int) -> VotingForest:
    """Return a checked forest with the weights that its leaves' columns hold."""
    check_forest(forest)
    _check_range("leaf", leaves["leaf"], forest.leaves)
    _check_range("class", leaves["class"], classes)
    weights = np.zeros((forest.leaves, classes), np.int64)
    weights[leaves["leaf"], leaves["class"]] = leaves["weight"]
    return VotingForest(forest, weights, nat)


def _sends_every_cell_on(level: Level) -> bool:
    """Whether no cell of any node is sent past the node's last child.

    Planes 0 to p give offsets below 2^(p+1), so that a node with 2^(p+1) children or more need not be checked cell by
    cell.
    """
    highest = np.zeros(len(level.axis), np.int64)
    for plane, masks in enumerate(level.planes, start=1):
        highest[masks != 0] = plane
    cells = np.arange(64, dtype=np.uint64)
    doubtful = np.flatnonzero(level.arity < (1 << highest))
    for start in range(0, len(doubtful), 2**14):
        nodes = doubtful[start : start + 2**14, None]
        if (level.slots(nodes, cells[None, :]) >= level.arity[nodes]).any():
            return False
    return True


def _level_columns(number: int, level: Level) -> Columns:
    axis = np.where(level.axis == PASS, 0, level.axis)
    count = len(axis)
    columns: Columns = {
        "level": np.full(count, number, np.int16),
        "node": np.arange(count, dtype=np.int32),
        "axis": level.axis,
        "arity": level.arity,
        "word": word(axis).astype(np.int16),
        "shift": shift(axis).astype(np.uint8),
        "child": level.child.astype(np.int32),
    }
    for plane in range(PLANES):
        masks = level.planes[plane] if plane < len(level.planes) else np.zeros(count, np.uint64)
        columns[f"plane_{plane}"] = masks
    return columns


def _json_level(stored: Mapping[str, Any]) -> Level:
    planes = np.array([[int(mask, 16) for mask in plane] for plane in stored["planes"]], np.uint64)
    axis, arity = _whole_numbers(stored["axis"]), _whole_numbers(stored["arity"])
    if (
        planes.ndim != 2
        or not 1 <= len(planes) <= PLANES
        or np.abs(axis).max() > 2**15 - 1
        or not _arity_in_range(arity)
    ):
        raise ValueError("out of range")
    return Level(axis.astype(np.int16), arity.astype(np.uint8), planes)


def _whole_numbers(values: object) -> np.ndarray[Any, Any]:
    """Return a list of whole numbers as an array; anything else raises."""
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise TypeError("not a list of whole numbers")
    return np.array(values, np.int64)


def _arity_in_range(arity: np.ndarray[Any, Any]) -> bool:
    return bool(arity.min() >= 1 and arity.max() <= 64)


def _drop_empty_planes(planes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the planes up to the last one that has a bit set, and at least one plane."""
    used = np.flatnonzero(planes.any(axis=1))
    return planes[: int(used.max(initial=0)) + 1]


def _check_range(name: str, numbers: np.ndarray[Any, Any], count: int) -> None:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise SchemaError(f"the model is damaged: a {name} number is out of range.")
