"""Labels rows with public features by a released forest, and counts them in another's leaves, inside the database.

First every row walks the trees of the released forest (the teacher), the votes of its leaves are added up, and the row
is cached with the class that wins. Then the cached rows are counted in the new trees as labelled rows are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count import leaves as counting
from dpsql.compile.count.leaves import ROOTS, START, Statement, root_table
from dpsql.compile.count.levels import Tables, node_tables, walk
from dpsql.compile.predict.votes import ROW, SCORES, WINNER, Parts, class_of_rank, rank_of_class, with_scores
from dpsql.compile.rows import PACKED, Source, Tickets, pack_rows, word_name
from dpsql.compile.vocabulary import Vocabulary
from dpsql.trees.forest import Forest
from dpsql.trees.grid import words
from dpsql.trees.voting import VotingForest

NUMBERED = "numbered"
LEAVES = "leaf_votes"


def labelled_rows(source: Source, teacher: VotingForest, vocabulary: Vocabulary, tickets: Tickets) -> Statement:
    """Return the statement that gives each row the teacher's class, with its words and node 0.

    The number of classes is that of the teacher, because the table of the rows may be registered without a label.
    """
    forest, classes = teacher.forest, teacher.weights.shape[1]
    names = [word_name(number) for number in range(words(len(forest.axes)))]
    query = exp.Select().with_(NUMBERED, pack_rows(source, vocabulary, tickets))
    numbered = exp.select(exp.alias_(vocabulary.row_number(), ROW), *names).from_(NUMBERED)
    query = query.with_(PACKED, numbered, materialized=True)
    parts = Parts({}, exp.to_table(LEAVES), exp.to_table(ROOTS))
    query = with_scores(query, forest, parts, vocabulary, carried=(ROW,))
    best = exp.alias_(exp.Max(this=rank_of_class(exp.column("score"), classes)), "best")
    query = query.with_(WINNER, exp.select(exp.column(ROW), best).from_(SCORES).group_by(exp.column(ROW)))
    label = exp.alias_(class_of_rank(classes), "class")
    columns = [exp.column(name, PACKED) for name in names]
    query = query.select(exp.alias_(exp.Literal.number(0), "node"), label, *columns).from_(PACKED)
    query = query.join(WINNER, on=exp.column(ROW, WINNER).eq(exp.column(ROW, PACKED)))
    tables: Tables = node_tables(forest, vocabulary)
    return Statement(query, tables | {ROOTS: root_table(forest.trees), LEAVES: leaf_table(teacher)})


def pseudo_leaf_counts(cached: str, forest: Forest, vocabulary: Vocabulary) -> Statement:
    """Return the statement that counts (leaf, class) of cached rows; every row is counted in every tree."""
    names = ["class", *(word_name(number) for number in range(words(len(forest.axes))))]
    start = exp.select(exp.column("node", ROOTS), *(exp.column(name, cached) for name in names))
    query = exp.Select().with_(START, start.from_(cached).join(ROOTS, join_type="cross"))
    query, last = walk(query, forest, vocabulary, start=START, carried=("class",))
    return counting.count_by_leaf(query, last, node_tables(forest, vocabulary) | {ROOTS: root_table(forest.trees)})


def leaf_table(teacher: VotingForest) -> dict[str, np.ndarray[Any, Any]]:
    """Return the table of the weight that each leaf of a released forest gives to each class, zeros included."""
    leaves, classes = teacher.weights.shape
    return {
        "leaf": np.repeat(np.arange(leaves, dtype=np.int32), classes),
        "class": np.tile(np.arange(classes, dtype=np.int32), leaves),
        "weight": teacher.weights.reshape(-1).astype(np.int64),
    }
