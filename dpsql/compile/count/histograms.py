"""Counts, for splits that depend on the data, the rows of each class in each cell of an axis at a node.

One scan serves all nodes of a level: the rows are brought to their nodes as in `leaves.py`, then joined with a short
list of asks. An ask is a node and an axis to read there; a node may have one ask, several, or none. If `by_class` is
false, the rows of all classes are counted together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.count.leaves import Statement
from dpsql.compile.count.levels import Tables
from dpsql.compile.rows import word_name
from dpsql.compile.vocabulary import as_int, int_literal, paren
from dpsql.schema import CELLS
from dpsql.trees.forest import PASS
from dpsql.trees.grid import shift, word, words

ASKS = "asks"


@dataclass(frozen=True, eq=False)
class Asks:
    """Pairs of a node and an axis to read there; a row of the result names its ask by its position here."""

    node: NDArray[np.int64]
    axis: NDArray[np.int64]

    @classmethod
    def of(cls, axis: NDArray[Any]) -> Asks:
        """Return the asks, node by node, from an array of nodes × axes to read (PASS where there is none)."""
        node, place = np.nonzero(axis != PASS)
        return cls(node, axis[node, place].astype(np.int64))

    def __len__(self) -> int:
        return len(self.node)


def histograms(
    query: exp.Select, rows: str, tables: Tables, axis_count: int, asks: Asks, *, by_class: bool
) -> Statement:
    """Return the statement that counts (ask, cell[, class]) of rows that a query has brought to their nodes.

    `rows` names its last CTE, with columns `node`, `class` and the words of `axis_count` axes.
    """
    keys = ["ask", "cell"] + (["class"] if by_class else [])
    moved = exp.BitwiseRightShift(this=_word(axis_count, rows), expression=exp.column("shift", ASKS))
    cell = as_int(exp.BitwiseAnd(this=paren(moved), expression=int_literal(CELLS - 1)))
    columns = [exp.column("ask", ASKS), exp.column("class", rows), exp.alias_(cell, "cell", copy=False)]
    cells = exp.Select().select(*columns, copy=False).from_(exp.to_table(rows), copy=False)
    same = exp.column("node", ASKS).eq(exp.column("node", rows))
    cells = cells.join(exp.to_table(ASKS), on=same, copy=False)
    count = exp.alias_(exp.Count(this=exp.Star()), "rows", copy=False)
    query = query.with_("cells", cells, copy=False)
    query = query.select(*(exp.column(key) for key in keys), count, copy=False).from_(exp.to_table("cells"), copy=False)
    query = query.group_by(*(exp.column(key) for key in keys), copy=False)
    return Statement(query, tables | {ASKS: _ask_table(asks)})


def _word(axis_count: int, rows: str) -> exp.Expr:
    count = words(axis_count)
    if count == 1:
        return exp.column(word_name(0), rows)
    case = exp.Case(this=exp.column("word", ASKS))
    for number in range(count - 1):
        case = case.when(int_literal(number), exp.column(word_name(number), rows))
    return case.else_(exp.column(word_name(count - 1), rows))


def _ask_table(asks: Asks) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "ask": np.arange(len(asks), dtype=np.int32),
        "node": asks.node.astype(np.int32),
        "word": word(asks.axis).astype(np.int16),
        "shift": shift(asks.axis).astype(np.uint8),
    }
