"""For neighbouring tables everything but the noisy values is the same: keys, shapes, statements, plan, ledger.

A method with `public_structure = False` grows its trees from noisy answers. Its trees are then noisy values themselves,
and so is what speaks of them: the stored nodes, the number of leaves, every statement after the first. All the rest is
compared for such a method too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql import methods
from dpsql.database import Database
from dpsql.methods.base import public_structure
from dpsql.schema import Schema
from tests.kernel.helpers import Watched
from tests.tables import SCHEMA, SMALL, UNITS, Row, memory, plain, rows_of, shape, some_rows

NUMBERS = st.sampled_from([None, 0.0, 5.0, 63.0, -9.0, 1e300, float("nan"), float("inf"), float("-inf")])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 3]),
        NUMBERS,
        st.sampled_from([None, "a", "b", "??"]),
        st.sampled_from([None, "no", "yes", "maybe", "??"]),
    ),
    max_size=8,
)
ODD: dict[str, list[Row]] = {
    "one row": [(1, 1.0, "a", "no")],
    "all NULL": [(None, None, None, None)],
    "one class": [(k, 1.0, "a", "no") for k in range(5)],
    "unknown labels": [(k, 1.0, "a", "??") for k in range(5)],
    "all kinds": some_rows(),
    "a unit of many rows": [*some_rows(), *[(77, float(k), "a", "yes") for k in range(9)]],
}


@cache
def empty(schema: Schema, method: str) -> dict[str, Any]:
    """Return what training on an empty table leaves: what every other table is compared with."""
    return artifact([], schema, method)


def artifact(rows: list[Row], schema: Schema, method: str) -> dict[str, Any]:
    """Return everything that a training run leaves or sends, with released values replaced by their types."""
    parameters = {name: value for name, value in SMALL.items() if name in methods.get(method).parameters}
    with memory(rows, schema=schema) as opened:
        watched = Watched(opened.engine)
        database = Database(watched, who="ann")  # type: ignore[arg-type]
        model = database.train("people", epsilon=1, method=method, request_id="r", **parameters)
        exported = plain(model.to_json())
        trees = exported["forest"]
        tables = {
            table: rows_of(opened.engine, f"SELECT {columns} FROM dpsql.{table} ORDER BY ALL")
            for table, columns in {"model_node": "*", "model_leaf": "leaf, count(*) OVER ()"}.items()
        }
        found = {
            "statements": watched.statements,
            "joined": watched.tables,
            "structure": (trees["trees"], trees["levels"], shape(trees["leaves"])),
            "exported": shape({key: value for key, value in exported.items() if key != "forest"}),
            "tables": tables,
            "plan": model.certificate["plan"],
            "certificate": shape(model.certificate),
            "entries": [shape(vars(entry)) for entry in database.book.entries()],
            "words": (repr(model), database.models().drop(columns=["created_at", "digest"]).to_dict("records")),
            "budget": database.budget("people").spent,
        }
        return found if public_structure(methods.get(method)) else without_structure(found)


def without_structure(found: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same though the trees follow from noisy answers; the first statement comes before any."""
    kept = {key: value for key, value in found.items() if key not in ("structure", "tables", "words")}
    return {**kept, "statements": found["statements"][:1], "joined": found["joined"][:1]}


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.parametrize("method", methods.METHODS)
def test_odd_tables_leave_the_shape_of_an_empty_one(method: str, rows: list[Row], schema: Schema) -> None:
    """What depends on rows is never an error and never shows in the shape of a release."""
    assert artifact(rows, schema, method) == empty(schema, method)


@pytest.mark.parametrize("method", methods.METHODS)
@settings(max_examples=4)
@given(rows=ROWS)
def test_any_table_leaves_the_shape_of_an_empty_one(method: str, rows: list[Row]) -> None:
    """Rows more or less, whatever is in them, change no key, no length, no statement and no figure."""
    assert artifact(rows, UNITS, method) == empty(UNITS, method)


def test_only_grown_trees_are_left_out() -> None:
    """`rosnam` is compared whole; `id3`, whose trees follow from noisy answers, keeps all but its trees."""
    whole, partial = empty(SCHEMA, "rosnam"), empty(SCHEMA, "id3")
    assert whole.keys() - partial.keys() == {"structure", "tables", "words"}
    assert len(partial["statements"]) == len(partial["joined"]) == 1


def test_these_tests_see_the_statements() -> None:
    """The statements that are compared are those that ran, whole: one for `rosnam`, with its secret keys left out."""
    statements = empty(SCHEMA, "rosnam")["statements"]
    assert len(statements) == 1
    assert "GROUP BY" in statements[0]
    assert "XOR(HASH(rowid), CAST(KEY AS UBIGINT))" in statements[0]
