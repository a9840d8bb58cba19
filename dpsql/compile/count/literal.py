"""Counts each leaf by a statement of its own: the simple form, `SELECT … WHERE … GROUP BY class`.

    SELECT class, COUNT(*) AS rows
    FROM (SELECT … AS class FROM the private table WHERE age < 37.5 AND part = 3 AND the label is known) AS leaf_rows
    GROUP BY class

A forest of n leaves takes n statements, each a scan of the table: for small forests, to be read and to be timed. They
count the same rows by the same rules as the one statement of `leaves.py`, cell by cell; `compile/check.py` sees each.
Where units are capped, the rows that are used are chosen first, in a subquery. Where rows are dealt out by a hash, its
expression stands in the place of `part = 3`.
"""

from __future__ import annotations

import logging

from sqlglot import exp

from dpsql.compile.count.leaf_predicate import leaf_predicate, tree_predicate
from dpsql.compile.count.leaves import Slice, Statement, sum_by_leaf
from dpsql.compile.count.nested_case import as_columns, on_named_columns
from dpsql.compile.rows import Part, Source, Tickets, counted_rows
from dpsql.compile.vocabulary import Vocabulary, as_int, int_literal
from dpsql.trees.forest import Forest

#: The logger of the statements.
LOGGER = "dpsql.literal"
_LOG = logging.getLogger(LOGGER)
#: What stands in place of the secret keys where a statement is shown.
HIDDEN_KEYS = Tickets(("key_1", "key_2", "key_3"))
#: The most leaves that are counted in this form.
MOST_LEAVES = 512
#: The subquery of the rows of one leaf.
_LEAF_ROWS = "leaf_rows"
#: The subquery of the rows that are used at all, where units are capped.
_USED_ROWS = "used_rows"


def literal_counts(
    source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part
) -> Statement:
    """Return the statement that counts the rows of one leaf by class."""
    rows = _rows_of_leaf(source, forest, leaf, vocabulary, tickets, trees, part).subquery(_LEAF_ROWS)
    count = exp.Count(this=exp.Star()).as_("rows")
    return Statement(exp.select(exp.column("class"), count).from_(rows).group_by(exp.column("class")), {})


def literal_sums(
    source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part
) -> Statement:
    """Return the statement that counts the rows of one leaf and adds up the steps of their targets."""
    rows = _rows_of_leaf(source, forest, leaf, vocabulary, tickets, trees, part)
    rows = rows.select(exp.alias_(as_int(int_literal(leaf)), "node"))
    query = exp.Select().with_(_LEAF_ROWS, rows, copy=False)
    return sum_by_leaf(query, _LEAF_ROWS, {}, steps=source.schema.steps)


def log_statement(source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary, trees: Slice, part: Part) -> None:
    """Log the statement of one leaf, with names in the place of the secret keys, before it runs.

    The text follows from the schema and from released trees: it is public. What the statement counts is never logged.
    """
    if _LOG.isEnabledFor(logging.INFO):
        build = literal_counts if source.schema.target is None else literal_sums
        statement = build(source, forest, leaf, vocabulary, HIDDEN_KEYS, trees, part)
        _LOG.info("-- leaf %d\n%s;", leaf, statement.query.sql(vocabulary.dialect, pretty=True))


def _rows_of_leaf(
    source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part
) -> exp.Select:
    """Return the class of each row that is counted in a leaf."""
    tree = int(forest.leaf_tree[leaf])
    if source.schema.unit.column is None:
        rows = counted_rows(source, vocabulary, tickets, part)
        ticket = rows.selects[1].unalias()
        rows.set("expressions", rows.selects[:1])
        return _where(
            rows, leaf_predicate(source, forest, leaf, vocabulary), tree_predicate(source, trees, tree, ticket)
        )
    # The rows that are used are chosen among all rows of a unit, before any leaf is looked at.
    used = counted_rows(source, vocabulary, tickets, part, cells=as_columns(source, vocabulary)).subquery(_USED_ROWS)
    named = on_named_columns(source)
    rows = exp.select(exp.column("class")).from_(used)
    by_tree = tree_predicate(named, trees, tree, exp.column("ticket"))
    return _where(rows, leaf_predicate(named, forest, leaf, vocabulary), by_tree)


def _where(rows: exp.Select, path: exp.Expr, by_tree: exp.Expr | None) -> exp.Select:
    """Return the rows of a query on a path, in a tree. A path without a test is left out."""
    for test in (path, by_tree):
        if test is not None and test != exp.true():
            rows = rows.where(test)
    return rows
