"""Histograms for splits that look at the data: how many rows of each class fall into each cell of each node.

One scan for all nodes of a level and all asked axes: the rows are brought to their nodes as in `counts.py`, then
joined with the short list of axes. With `by_class` false the class is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.counts import WHOLE, Part, Slice, Statement, at_nodes
from dpsql.compile.source import Source, Tickets, word_name
from dpsql.compile.vocabulary import Vocabulary, as_int, paren, whole
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest
from dpsql.trees.grid import shift, word, words

AXES = "axes"


def histograms(
    source: Source,
    forest: Forest,
    vocabulary: Vocabulary,
    tickets: Tickets,
    trees: Slice,
    axes: Sequence[int],
    *,
    by_class: bool,
    part: Part = WHOLE,
) -> Statement:
    """Return the statement that counts (node, axis, cell[, class]) at the leaves of a growing forest."""
    query, last, tables = at_nodes(source, forest, vocabulary, tickets, trees, part)
    keys = ["node", "axis", "cell"] + (["class"] if by_class else [])
    cell = as_int(
        exp.BitwiseAnd(
            this=paren(exp.BitwiseRightShift(this=_word(len(forest.axes)), expression=exp.column("shift", AXES))),
            expression=whole(CELLS - 1),
        )
    )
    cells = (
        exp.select(exp.column("node", last), exp.column("class", last), exp.column("axis", AXES), cell.as_("cell"))
        .from_(last)
        .join(AXES, join_type="cross")
    )
    query = query.with_("cells", cells).select(*keys, exp.Count(this=exp.Star()).as_("rows"))
    tables[AXES] = _axis_table(axes)
    return Statement(query.from_("cells").group_by(*keys), tables)


def _word(axis_count: int) -> exp.Expr:
    count = words(axis_count)
    if count == 1:
        return exp.column(word_name(0))
    case = exp.Case(this=exp.column("word", AXES))
    for number in range(count - 1):
        case = case.when(whole(number), exp.column(word_name(number)))
    return case.else_(exp.column(word_name(count - 1)))


def _axis_table(axes: Sequence[int]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "axis": np.array(axes, np.int32),
        "word": np.array([word(axis) for axis in axes], np.int16),
        "shift": np.array([shift(axis) for axis in axes], np.uint8),
    }
