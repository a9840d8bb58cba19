"""Runs built statements as the kernel does, and gives back plain Counters."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from dpsql.compile.check import check_statement
from dpsql.compile.count import leaf_predicate
from dpsql.compile.count import leaves as counts
from dpsql.compile.count.leaves import EVERY_UNIT, Part, Slice, Statement
from dpsql.compile.rows import Source, Tickets, pack_rows
from dpsql.engines.base import Engine
from dpsql.trees.forest import Forest
from tests.engines.aggregate import aggregate

KEYS = Tickets((0x1234567890ABCDEF, 0x0FEDCBA987654321, 0x5555AAAA5555AAAA))


def run(engine: Engine, statement: Statement, *keys: str) -> Counter[tuple[int, ...]]:
    """Check and run a statement; return the number of rows of each key."""
    check_statement(statement.query, engine.vocabulary)
    found = aggregate(engine, statement.query, statement.tables)
    groups = list(zip(*(found[key].tolist() for key in keys), strict=True)) if keys else [()]
    assert len(set(groups)) == len(groups)
    return Counter(dict(zip(groups, found["rows"].tolist(), strict=True)))


def shared_counts(engine: Engine, source: Source, forest: Forest, part: Part = EVERY_UNIT) -> Counter[tuple[int, ...]]:
    """Count (leaf, class) with every row in every tree."""
    trees = Slice(True, 0, forest.trees)
    statement = counts.leaf_counts(source, forest, engine.vocabulary, KEYS, trees, part)
    return run(engine, statement, "leaf", "class")


def disjoint_counts(
    engine: Engine,
    source: Source,
    forest: Forest,
    *,
    keys: Tickets = KEYS,
    first: int = 0,
    total: int | None = None,
    part: Part = EVERY_UNIT,
) -> Counter[tuple[int, ...]]:
    """Count (leaf, class) with each row in the tree of its ticket."""
    trees = Slice(False, first, total or forest.trees)
    return run(engine, counts.leaf_counts(source, forest, engine.vocabulary, keys, trees, part), "leaf", "class")


def one_by_one(engine: Engine, source: Source, forest: Forest) -> Counter[tuple[int, ...]]:
    """Count (leaf, class) with one readable query per leaf."""
    classes = source.schema.classes
    found: Counter[tuple[int, ...]] = Counter()
    with engine.transaction() as transaction:
        for leaf in range(forest.leaves):
            query = leaf_predicate.leaf_query(source, forest, leaf, engine.vocabulary)
            query.selects[0].replace(exp.cast(query.selects[0].copy(), "TEXT").as_("label_text"))
            for row in transaction.rows(query):
                found[leaf, classes.index(row["label_text"])] += row["rows"]
    return found


def row_tickets(engine: Engine, source: Source, keys: Tickets = KEYS) -> list[tuple[int, int]]:
    """Return the ticket and the class of each row that counts, in the order of the table (duckdb keeps it)."""
    with engine.transaction() as transaction:
        rows = transaction.rows(pack_rows(source, engine.vocabulary, keys))
    return [(row["ticket"], row["class"]) for row in rows]
