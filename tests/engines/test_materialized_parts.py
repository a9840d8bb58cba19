"""Tests of materialised parts: each is worked out before, once, from a query that stands by itself."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from dpsql.engines.materialized_parts import store_materialized_parts


def stored(text: str) -> tuple[str, list[exp.Select]]:
    """Return what is left of a query, and the queries that were stored, which are read back from kept_0, kept_1, …."""
    kept: list[exp.Select] = []

    def store(part: exp.Select) -> exp.Select:
        kept.append(part)
        return exp.select("*").from_(f"kept_{len(kept) - 1}")

    return store_materialized_parts(sqlglot.parse_one(text, dialect="postgres"), store).sql(), kept


def test_a_part_is_stored_with_all_that_it_needs() -> None:
    """The parts before it come along; those after it do not."""
    left, (kept,) = stored(
        "WITH a AS (SELECT 1 AS x), b(y) AS MATERIALIZED (SELECT x FROM a), c AS (SELECT y FROM b) SELECT y FROM c"
    )
    assert left == "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM kept_0), c AS (SELECT y FROM b) SELECT y FROM c"
    assert kept.sql() == "WITH a AS (SELECT 1 AS x), b(y) AS (SELECT x FROM a) SELECT * FROM b"


def test_a_stored_query_names_its_part_as_a_table() -> None:
    """An engine that puts parts into the places of their names has to find every place."""
    _, (kept,) = stored("WITH a AS MATERIALIZED (SELECT 1 AS x) SELECT x FROM a")
    assert [table.name for table in kept.find_all(exp.Table)] == ["a"]


def test_inner_parts_and_earlier_parts_come_first() -> None:
    """A part is worked out from stored rows where it is made of such."""
    _, kept = stored(
        "WITH a AS MATERIALIZED (WITH i AS MATERIALIZED (SELECT 1 AS x) SELECT x FROM i), "
        "b AS MATERIALIZED (SELECT x FROM a) SELECT x FROM b"
    )
    assert [part.find(exp.From).name for part in kept] == ["i", "a", "b"]
    assert [one for part in kept for one in part.find_all(exp.CTE) if one.args.get("materialized")] == []
    read = [{table.name for table in part.find_all(exp.Table)} for part in kept]
    assert read == [{"i"}, {"a", "i", "kept_0"}, {"b", "a", "kept_1"}]
