"""Batches: a run on one batch counts its rows alone and charges them alone; at unit level it charges everyone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, ParameterError, SchemaError
from dpsql.schema import Schema, Unit
from tests.hostile import HOSTILE
from tests.tables import SCHEMA, TYPES, fill, run, stored

#: At this epsilon the noise is 0.
EXACT = 10**5
RDT: dict[str, Any] = {"method": "rdt", "trees": 2, "depth": 2}
BATCHED = replace(SCHEMA, batch="month")


def batched(
    sizes: Iterable[tuple[Any, int]], *, kind: str = "VARCHAR", schema: Schema = BATCHED, cap: object | None = 10**8
) -> Database:
    """Return a database whose table "people" has so many rows of each batch; their column has this type."""
    opened = connect(":memory:", who="ann")
    rows: list[Any] = []
    for value, size in sizes:
        rows += [(len(rows) + k, float(k % 64), "ab"[k % 2], ("no", "yes", "maybe")[k % 3], value) for k in range(size)]
    fill(opened.engine, "people", rows, TYPES | {str(schema.batch): kind})
    opened.register("people", schema, cap=cap)
    return opened


def rows_in(opened: Database, batch: str | None, table: str = "people", **changes: Any) -> int:
    """Return how many rows a run on a batch counts in each of its trees."""
    released = opened.train(table, epsilon=EXACT, batch=batch, **{**RDT, **changes}).released
    per_tree = np.bincount(released.forest.leaf_tree, released.weights.sum(axis=1))
    assert len(set(per_tree.tolist())) == 1
    return int(per_tree[0])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("VARCHAR", ["2026-01", "2026-1", "2026-01 "]),
        ("INTEGER", [1, 10, -1]),
        ("BOOLEAN", [True, False, None]),
        ("HUGEINT", [2**100, 1, 2**100 + 1]),
    ],
)
def test_only_the_rows_of_the_batch_are_counted(kind: str, values: list[Any]) -> None:
    """The batch's value is compared as text, whatever the column's type."""
    with batched(zip(values, (7, 5, 3), strict=True), kind=kind) as opened:
        first, second = (str(value).lower() for value in values[:2])
        assert (rows_in(opened, first), rows_in(opened, second)) == (7, 5)


def test_another_spelling_is_another_batch() -> None:
    """Text that is not exactly the value's own counts no row, NULLs included."""
    with batched([(1, 7), (None, 4)], kind="INTEGER") as opened:
        assert [rows_in(opened, batch) for batch in ("01", "1.0", "NULL")] == [0] * 3


def test_letter_case_tells_batches_apart() -> None:
    """`a` and `A` are two batches."""
    with batched([("a", 3), ("A", 4)]) as opened:
        assert (rows_in(opened, "a"), rows_in(opened, "A")) == (3, 4)


def test_rows_without_a_batch_count_in_the_whole_table_only() -> None:
    """A row whose batch is NULL is in no batch, but in a run on everything."""
    with batched([("a", 3), (None, 4)]) as opened:
        assert (rows_in(opened, "a"), rows_in(opened, None)) == (3, 7)


def test_a_view_keeps_its_own_filter() -> None:
    """A batch of a view with an OR in its filter holds the view's rows of that batch only."""
    opened = connect(":memory:", who="ann")
    fill(opened.engine, "base", [(k, float(k), "a", "no", str(k % 2)) for k in range(40)], TYPES | {"m": "VARCHAR"})  # type: ignore[misc]
    run(opened.engine, "CREATE VIEW people AS SELECT x, c, y, m AS month FROM base WHERE x < 10 OR x >= 30")
    opened.register("people", BATCHED, cap=10**8)
    with opened:
        assert rows_in(opened, "1") == 10


@pytest.mark.parametrize("method", ["rdt", "rosnam"])
def test_the_ledger_names_the_batch(method: str) -> None:
    """The entry's scope is `column=value`, and its plan has the batch."""
    with batched([("2026-01", 3)]) as opened:
        opened.train("people", method=method, trees=2, depth=1, batch="2026-01")
        (entry,) = opened.book.entries(event="reserve")
    assert (entry.scope, entry.plan["batch"]) == ("month=2026-01", "2026-01")


def test_the_certificate_names_the_batch() -> None:
    """A model of a batch says which; a model of the whole table has no such key."""
    with batched([("a", 3)]) as opened:
        assert opened.train("people", batch="a", **RDT).certificate["batches"] == ["a"]
        assert "batches" not in opened.train("people", **RDT).certificate


def test_batches_are_paid_side_by_side() -> None:
    """Four batches at epsilon 0.5 cost each row 0.5, not 2."""
    with batched([(k, 3) for k in range(4)], kind="INTEGER", cap="0.5") as opened:
        for number in range(4):
            opened.train("people", epsilon="0.5", batch=str(number), **RDT)
        budget = opened.budget("people")
        assert (budget.spent_text, budget.left_text, len(budget.scopes)) == ("0.5", "0", 4)
        assert opened.verify() == []


def test_a_run_on_everything_adds_to_the_dearest_batch() -> None:
    """After batches at 0.5 and 0.3 a whole-table run at 0.25 leaves a row with 0.75 at most."""
    with batched([("a", 3), ("b", 3)], cap=1) as opened:
        opened.train("people", epsilon="0.5", batch="a", **RDT)
        opened.train("people", epsilon="0.3", batch="b", **RDT)
        opened.train("people", epsilon="0.25", **RDT)
        assert opened.budget("people").spent_text == "0.75"


def test_the_cap_holds_for_each_batch() -> None:
    """A batch that has spent its cap is refused without a trace; the next one is not."""
    with batched([("a", 3), ("b", 3)], cap=1) as opened:
        opened.train("people", epsilon="0.8", batch="a", **RDT)
        before = stored(opened)
        with pytest.raises(BudgetExceeded):
            opened.train("people", epsilon="0.3", batch="a", **RDT)
        assert stored(opened) == before
        opened.train("people", epsilon="1", batch="b", **RDT)
        assert opened.budget("people").spent_text == "1"


def test_at_unit_level_the_whole_table_is_charged() -> None:
    """A person may be in several batches, so two batches at 0.5 cost 1."""
    with batched([("a", 3), ("b", 3)], schema=replace(BATCHED, unit=Unit("person", 2))) as opened:
        for batch in "ab":
            opened.train("people", epsilon="0.5", batch=batch, **RDT)
        budget = opened.budget("people")
        assert (budget.spent_text, budget.scopes) == ("1", ())
        assert {entry.scope for entry in opened.book.entries(event="reserve")} == {""}


def test_a_batch_without_a_declared_column_is_refused() -> None:
    """`batch` needs a batch column in the schema; the refusal leaves no trace."""
    with batched([("a", 3)]) as opened:
        opened.register("people", SCHEMA, cap=10, replace=True)
        before = stored(opened)
        with pytest.raises(ParameterError) as caught:
            opened.train("people", batch="a", **RDT)
        assert caught.value.name == "batch"
        assert stored(opened) == before


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 2)], ids=str)
def test_what_is_not_storable_text_names_no_batch(unit: Unit) -> None:
    """A number (0 beside "0" would be one batch under two names), NUL and lone surrogates are refused, uncharged."""
    values: list[Any] = [0, True, 1.5, "", "a\0b", "\ud800", b"a"]
    with batched([("a", 3)], schema=replace(BATCHED, unit=unit)) as opened:
        before = stored(opened)
        for batch in values:
            with pytest.raises(ParameterError) as caught:
                opened.train("people", batch=batch, **RDT)
            assert caught.value.name == "batch"
        assert stored(opened) == before


def test_hostile_values_name_their_own_rows() -> None:
    """Quotes, statements and scripts in a batch's value are text: they find their row, and the ledger keeps them."""
    some = [HOSTILE[number * len(HOSTILE) // 6] for number in range(6)]
    with batched([(value, 1 + number % 3) for number, value in enumerate(some)]) as opened:
        assert [rows_in(opened, value) for value in some] == [1 + number % 3 for number in range(len(some))]
        assert {share.name for share in opened.budget("people").scopes} == {f"month={value}" for value in some}
        assert opened.verify() == []


def test_hostile_columns_can_be_batches() -> None:
    """A batch column may have quotes in its name."""
    with batched([("a", 2), ("b", 3)], schema=replace(SCHEMA, batch='it\'s a "month"; --')) as opened:
        assert rows_in(opened, "b") == 3


def test_batches_of_a_second_column_start_from_what_was_spent() -> None:
    """Batches of two columns overlap; after --replace with another column all rows have spent what any batch had."""
    with batched([("a", 3), ("b", 3)]) as opened:
        opened.train("people", batch="a", epsilon=3, **RDT)
        opened.train("people", batch="b", epsilon=2, **RDT)
        opened.register("people", replace(SCHEMA, batch="person"), cap=5, replace=True)
        assert opened.budget("people").left_in("person=1") == 2 * 10**9
        with pytest.raises(BudgetExceeded):
            opened.train("people", batch="1", epsilon=3, **RDT)
        opened.train("people", batch="1", epsilon=2, **RDT)
        assert opened.verify() == []


def test_a_column_of_another_kind_is_no_batch_column() -> None:
    """Real numbers have no one text, so they cannot name batches."""
    with pytest.raises(SchemaError, match="batch column"):
        batched([(1.5, 3)], kind="DOUBLE")


def test_the_same_request_on_another_batch_is_refused() -> None:
    """A request id stands for one batch."""
    with batched([("a", 3), ("b", 3)]) as opened:
        first = opened.train("people", batch="a", request_id="r", **RDT)
        assert opened.train("people", batch="a", request_id="r", **RDT).to_json() == first.to_json()
        with pytest.raises(ParameterError) as caught:
            opened.train("people", batch="b", request_id="r", **RDT)
        assert caught.value.name == "request_id"


def test_a_plan_looks_at_the_batch_it_is_for() -> None:
    """What a batch has lost is what a dry run counts; a batch that nobody declared is refused there too."""
    with batched([("a", 5), ("b", 5)], cap=2) as opened:
        opened.train("people", epsilon=1, batch="a", **RDT)
        assert (opened.spent_on("people", "a"), opened.spent_on("people", "b")) == (10**9, 0)
        assert "'b'" in opened.explain("people", batch="b", **RDT).statement_sql
    with batched([("a", 5)]) as plain:
        plain.register("people", replace(SCHEMA, batch=None), cap=10**8, replace=True)
        with pytest.raises(ParameterError):
            plain.plan("people", batch="a", **RDT)
