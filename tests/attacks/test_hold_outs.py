"""Nothing is trained on a hold-out, by whatever door, and no unit is ever in both datasets of its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError, SchemaError, TableChanged, UsageError
from dpsql.kernel.datasets.dataset import find_dataset, hold_out_of, source
from dpsql.kernel.run import Job, run
from dpsql.kernel.unlabelled_rows import sources
from dpsql.methods.rdt import counting_plan
from dpsql.schema import Dated, Schema, Unit
from tests.tables import SCHEMA, TARGET, TYPES, UNITS, Row, fill, frame_of, memory, rows_of, small_forest, stored
from tests.tables import run as run_sql

#: At this epsilon the noise is 0, so that counts are seen as they are.
EXACT = 10**5
PERSONS = range(60)
BATCHED = replace(SCHEMA, batch="c")


def held(database: Database, table: str = "people", *, column: str = "person") -> set[Any]:
    """Return the units that are in a table's hold-out."""
    beside = hold_out_of(database.book, find_dataset(database.engine, database.book, table))
    assert beside is not None
    rows = source(database.engine, beside)
    assert rows.where is not None
    text = f'SELECT "{column}" AS unit FROM {rows.table.sql("duckdb")} WHERE {rows.where.sql("duckdb")}'
    return {row["unit"] for row in rows_of(database.engine, text)}


def marked(schema: Schema, **more: Any) -> Database:
    """Return a database whose hold-out has the class "maybe" alone, and whose other rows never have it."""
    people: list[Row] = [(k, float(k), "ab"[k % 2], "no") for k in PERSONS]
    opened = memory(people, schema=replace(schema, unit=Unit("person", 2)), cap=10**6, holdout="30%", **more)
    units = held(opened)
    listed = ", ".join(map(str, sorted(units)))
    run_sql(opened.engine, f"UPDATE people SET y = CASE WHEN person IN ({listed}) THEN 'maybe' ELSE 'no' END")
    assert held(opened) == units
    assert 5 < len(units) < 30
    return opened


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a database whose hold-out can be told from the rest by its class."""
    with marked(SCHEMA) as opened:
        yield opened


def maybes(weights: Any) -> int:
    """Return how much the leaves of a model have counted of the class that the hold-out alone has."""
    return int(abs(weights[:, 2]).sum())


@pytest.mark.parametrize("method", ["rdt", "auto", "id3", "fs", "snr", "mrf", "maxtree", "spe", "rosnam"])
def test_no_method_sees_the_class_of_the_hold_out(database: Database, method: str) -> None:
    """A model trained at any method predicts no class that the hold-out alone has."""
    model = database.train("people", method=method, epsilon=5000)
    new = frame_of([(k, float(k), "ab"[k % 2], "no") for k in PERSONS])
    assert "maybe" not in set(model.predict(new))


def test_counts_are_those_of_the_rest(database: Database) -> None:
    """Counts of leaves, a bought size and a party's contribution have no row of the hold-out, and all others."""
    rest = len(PERSONS) - len(held(database))
    model = database.train("people", method="rdt", epsilon=EXACT, trees=1, depth=2)
    assert (int(model.released.weights.sum()), maybes(model.released.weights)) == (rest, 0)
    assert database.advise("people", buy=EXACT).bought.rows == rest
    structure = database.export_structure("people", trees=1, depth=2)
    shared = database.contribute("people", structure, epsilon=EXACT)
    assert (int(shared.released.weights.sum()), maybes(shared.released.weights)) == (rest, 0)


def test_a_batch_and_its_update_leave_the_hold_out_alone() -> None:
    """One batch is counted without the hold-out's rows, and so is the next one."""
    with marked(BATCHED) as database:
        first = database.train("people", method="rdt", epsilon=EXACT, trees=1, depth=2, batch="a")
        both = database.update(first, "b", epsilon=EXACT)
        rest = len(PERSONS) - len(held(database))
        assert (int(both.released.weights.sum()), maybes(both.released.weights)) == (rest, 0)


def test_new_rows_are_labelled_without_it(database: Database) -> None:
    """Labels straight from the private table never say what the hold-out alone says."""
    new = [(k, float(k), "ab"[k % 2], "no") for k in range(6)]
    fill(database.engine, "new", new)
    released = database.predict_private(database.structure("people", trees=2, depth=2), "new", epsilon=EXACT)
    assert "maybe" not in set(released.predict("new")["prediction"])


def test_a_condition_cannot_reach_it(database: Database) -> None:
    """Who names the hold-out's persons as unlabelled rows gets none of them on either side."""
    dataset = find_dataset(database.engine, database.book, "people")
    units = sorted(held(database))
    condition = f"person IN ({', '.join(map(str, units))})"
    plan = database.plan("people", method="sspe", unlabelled=condition)
    for rows in sources(database.engine, dataset, None, plan, source(database.engine, dataset)).values():
        assert rows.where is not None
        text = f"SELECT person FROM {rows.table.sql('duckdb')} WHERE {rows.where.sql('duckdb')}"
        assert not {row["person"] for row in rows_of(database.engine, text)} & set(units)


DOORS: dict[str, Any] = {
    "train": lambda db: db.train("people:holdout", epsilon=1),
    "train in other letters": lambda db: db.train("PEOPLE:HOLDOUT", epsilon=1),
    "plan": lambda db: db.plan("people:holdout"),
    "explain": lambda db: db.explain("people:holdout", method="rdt"),
    "unlabelled": lambda db: db.train("people", method="sspe", unlabelled="people:holdout"),
    "size": lambda db: db.advise("people:holdout", buy=1),
    "contribute": lambda db: db.contribute("people:holdout", db.export_structure("people", trees=1, depth=1)),
    "labels": lambda db: db.predict_private(db.structure("people:holdout", trees=1, depth=1), "new"),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_to_it_is_shut(database: Database, door: str) -> None:
    """Whoever asks to train on the hold-out is refused, by name, and nothing is charged."""
    fill(database.engine, "new", [(1, 1.0, "a", "no")])
    before = stored(database)
    with pytest.raises(UsageError, match='"people:holdout" is a hold-out'):
        DOORS[door](database)
    assert stored(database) == before


def test_the_kernel_refuses_a_plan_on_it(database: Database) -> None:
    """A job that was put together by hand is refused before it is charged: only evaluations ask a hold-out."""
    dataset = find_dataset(database.engine, database.book, "people")
    beside = hold_out_of(database.book, dataset)
    assert beside is not None
    forest = small_forest(dataset.schema)
    plan = counting_plan(dataset.schema, forest, 10**9, {})
    job = Job.of(beside, plan, who="eve", request_id=None)
    before = stored(database)
    with pytest.raises(UsageError, match="hold-out"):
        run(database.engine, database.book, job, lambda session: pytest.fail("no session may be opened"))
    assert stored(database) == before


def test_a_view_on_the_table_has_no_other_budget(database: Database) -> None:
    """A view, a second registration and a table of the hold-out's name get no budget beside the two."""
    run_sql(database.engine, "CREATE VIEW seen AS SELECT * FROM people")
    with pytest.raises(UsageError, match="one budget, not two"):
        database.register("seen", UNITS, cap=5)
    run_sql(database.engine, 'CREATE TABLE "people:holdout" AS SELECT * FROM people')
    with pytest.raises(DpsqlError):
        database.register("people:holdout", SCHEMA, cap=5)
    assert find_dataset(database.engine, database.book, "people:holdout").is_hold_out


def test_a_name_that_is_taken_is_refused() -> None:
    """Where a table has the name that the hold-out would have, nothing is registered."""
    with connect(":memory:", who="ann") as database:
        fill(database.engine, "people", [(1, 1.0, "a", "no")])
        run_sql(database.engine, 'CREATE TABLE "people:holdout" AS SELECT * FROM people')
        with pytest.raises(UsageError, match="there is a table of that name"):
            database.register("people", SCHEMA, cap=5, holdout="10%")
        assert database.budgets() == []


CHANGES: dict[str, tuple[Schema, dict[str, Any]]] = {
    "another share": (UNITS, {"holdout": "20%"}),
    "another unit": (SCHEMA, {}),
    "more rows a unit": (replace(UNITS, unit=Unit("person", 9)), {}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("spender", ["people", "people:holdout"])
def test_units_stay_where_they_are_once_something_is_spent(change: str, spender: str) -> None:
    """Neither share nor unit changes after a charge on either dataset; before any charge they may."""
    schema, given_again = CHANGES[change]
    rows: list[Row] = [(k, float(k), "a", "no") for k in PERSONS]
    with memory(rows, schema=UNITS, cap=10, holdout="30%") as database:
        database.register("people", schema, cap=10, replace=True, **given_again)
        database.register("people", UNITS, cap=10, replace=True, holdout="30%")
        model = database.train("people", epsilon=1, method="rdt", trees=1, depth=1) if spender == "people" else None
        if model is None:
            other = memory(rows, schema=UNITS).train("people", epsilon=1, method="rdt", trees=1, depth=1)
            database.evaluate(replace(other, name="other"), "people:holdout", epsilon=1)
        before, units = stored(database), held(database)
        with pytest.raises(UsageError, match="spent budget"):
            database.register("people", schema, cap=10, replace=True, **given_again)
        assert stored(database) == before
        assert held(database) == units


def test_a_new_schema_keeps_key_share_and_columns() -> None:
    """Rows are dealt by the columns of the first registration, also when the schema has other features later."""
    rows: list[Row] = [(k, float(k), "ab"[k % 2], "no") for k in PERSONS]
    with memory(rows, schema=SCHEMA, cap=10, holdout="30%") as database:
        units, first = held(database), find_dataset(database.engine, database.book, "people").hold_out
        database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        narrower = replace(SCHEMA, features=SCHEMA.features[1:])
        dataset = database.register("people", narrower, cap=12, replace=True)
        assert (dataset.hold_out, held(database)) == (first, units)
        run_sql(database.engine, "ALTER TABLE people ALTER c TYPE INTEGER USING length(c)")
        with pytest.raises(TableChanged, match='column "c"'):
            database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        with pytest.raises(UsageError, match="spent budget"):
            database.register("people", narrower, cap=12, replace=True)


def test_a_hold_out_cannot_come_later() -> None:
    """Rows that a model was trained on are no hold-out: the share cannot change from nothing after a charge."""
    with memory([(k, float(k), "a", "no") for k in PERSONS], cap=10) as database:
        database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        with pytest.raises(UsageError, match="spent budget"):
            database.register("people", SCHEMA, cap=10, replace=True, holdout="10%")


def test_labels_do_not_move_rows_where_they_alone_are_private() -> None:
    """With public features the label is no part of the rule, and it cannot become so after a charge."""
    schema = replace(SCHEMA, public_features=True)
    rows: list[Row] = [(k, float(k), "ab"[k % 2], "no") for k in PERSONS]
    with memory(rows, schema=schema, cap=10, kind="label", holdout="30%") as database:
        units = held(database)
        run_sql(database.engine, "UPDATE people SET y = 'yes' WHERE person % 3 = 0")
        assert held(database) == units
        database.train("people", epsilon=1, method="sspe", privacy="labels", trees=1, depth=1)
    with memory(rows, schema=SCHEMA, cap=10, holdout="30%") as database:
        database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        with pytest.raises(UsageError, match="spent budget"):
            database.register("people", schema, cap=10, replace=True)


@given(
    people=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["no", "yes", "??", None])), max_size=30),
    extra=st.integers(10, 40),
    schema=st.sampled_from([SCHEMA, UNITS]),
)
@settings(max_examples=25)
def test_a_unit_moves_no_other(people: list[tuple[int, str | None]], extra: int, schema: Schema) -> None:
    """With one unit more, the dataset that it is not in has the same rows as before, and no unit is in both."""
    rows: list[Row] = [(person, float(k), "ab"[k % 2], label) for k, (person, label) in enumerate(people)]
    more: list[Row] = [(extra, 5.5, "a", "yes"), *([(extra, 6.5, "b", "no")] if schema is UNITS else [])]
    with memory(rows, schema=schema, cap=10, holdout="50%") as database:
        before = _both(database)
        fill(database.engine, "people", [*more[:1], *rows, *more[1:]])
        after = _both(database)
    changed = [old != new for old, new in zip(before, after, strict=True)]
    assert sum(changed) == 1
    assert len(after[0]) + len(after[1]) == len(rows) + len(more)
    if schema is UNITS:
        assert not {row[0] for row in after[0]} & {row[0] for row in after[1]}


MOMENT = Dated("moment", "2000-01-01", "2030-01-01", kind="timestamp")


def _with_moments(database: Database) -> None:
    """Give the table "people" 60 rows, half of which were seen at another moment."""
    fill(database.engine, "people", [(k, float(k), "ab"[k % 2], "no") for k in PERSONS])
    run_sql(
        database.engine,
        "ALTER TABLE people ADD COLUMN moment TIMESTAMP",
        "UPDATE people SET moment = '2020-01-01'",
        "UPDATE people SET moment = '2021-01-01 10:00:00' WHERE x >= 30",
    )


def test_rows_are_dealt_by_the_columns_whose_types_last() -> None:
    """A timestamp is a feature, and no part of the division: rows that are equal in all else stay together."""
    with connect(":memory:", who="ann") as database:
        _with_moments(database)
        schema = replace(SCHEMA, features=(*SCHEMA.features, MOMENT))
        dataset = database.register("people", schema, cap=10**6, holdout="30%")
        assert dataset.hold_out is not None
        assert dataset.hold_out.columns == ("y", "c", "x")
        units, before = held(database, column="x"), _both(database)
        assert 5 < len(units) < 30
        run_sql(database.engine, "UPDATE people SET moment = '2011-11-11'")
        assert (held(database, column="x"), _both(database)) == (units, before)
        model = database.train("people", method="rdt", epsilon=EXACT, trees=1, depth=1)
        assert int(model.released.weights.sum()) == len(PERSONS) - len(units)
        again = database.register("people", replace(schema, rows=100), cap=10**6, replace=True)
        assert again.hold_out == dataset.hold_out


def test_rows_that_only_a_moment_tells_apart_are_not_dealt() -> None:
    """Where no column beside the label has a type that lasts there is no hold-out, and the next step is named."""
    with connect(":memory:", who="ann") as database:
        _with_moments(database)
        with pytest.raises(SchemaError, match="no other feature") as refusal:
            database.register("people", replace(SCHEMA, features=(MOMENT,)), cap=5, holdout="30%")
        assert "add-ids" in str(refusal.value)
        assert database.budgets() == []


def _both(database: Database) -> list[list[tuple[Any, ...]]]:
    """Return the rows of both datasets of the table "people", sorted."""
    dataset = find_dataset(database.engine, database.book, "people")
    beside = hold_out_of(database.book, dataset)
    assert beside is not None
    read = []
    for which in (dataset, beside):
        rows = source(database.engine, which)
        assert rows.where is not None
        text = f"SELECT {', '.join(TYPES)} FROM people WHERE {rows.where.sql('duckdb')}"
        read.append(sorted((tuple(row.values()) for row in rows_of(database.engine, text)), key=str))
    return read


def test_an_evaluation_is_paid_by_the_hold_out_alone(database: Database) -> None:
    """A model is measured on the hold-out of its own table, whatever of the two is named, and that budget pays."""
    model = database.train("people", epsilon=50, method="rdt", trees=1, depth=1)
    for number, name in enumerate(("people", "people:holdout"), start=1):
        measured = database.evaluate(model, name, epsilon=EXACT)
        assert (measured.table, measured.rows) == ("people:holdout", len(held(database)))
        assert measured.confusion.loc["maybe"].sum() == measured.rows
        assert database.budget("people").spent_text == "50"
        assert database.budget("people:holdout").spent_text == str(number * EXACT)


def test_a_hold_out_that_cannot_pay_costs_nothing(database: Database) -> None:
    """Where the evaluation would be refused, the training before it is not charged either."""
    database.set_cap("people:holdout", 1)
    before = stored(database)
    with pytest.raises(BudgetExceeded, match="people:holdout"):
        database.train("people", epsilon=1, evaluate=2, method="rdt")
    database.set_cap("people:holdout", 5, analyst="ann")
    with memory([(1, 1.0, "a", "no")], cap=5) as other, pytest.raises(UsageError, match="no hold-out"):
        other.train("people", epsilon=1, evaluate=1)
    assert before["budget"] == stored(database)["budget"]


REFUSED: dict[str, tuple[Schema, dict[str, Any], type[DpsqlError]]] = {
    "no cap": (SCHEMA, {"cap": None}, ParameterError),
    "a number to predict": (TARGET, {}, SchemaError),
    "more than half": (SCHEMA, {"holdout": "51%"}, ParameterError),
    "nothing": (SCHEMA, {"holdout": 0}, ParameterError),
    "no share": (SCHEMA, {"holdout": "a tenth"}, ParameterError),
    "not a number": (SCHEMA, {"holdout": float("nan")}, ParameterError),
    "a flag": (SCHEMA, {"holdout": True}, ParameterError),
    "a cap without it": (SCHEMA, {"holdout": None, "holdout_cap": 1}, ParameterError),
    "a moment as unit": (replace(SCHEMA, unit=Unit("moment", 2)), {}, SchemaError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_hold_out_is_refused(case: str) -> None:
    """Shares, caps, labels and units that do not fit are refused, and nothing is registered."""
    schema, changes, error = REFUSED[case]
    with connect(":memory:", who="ann") as database:
        kinds = {**TYPES, "y": "DOUBLE"} if schema is TARGET else TYPES
        fill(database.engine, "people", [], kinds)
        run_sql(database.engine, "ALTER TABLE people ADD COLUMN moment TIMESTAMP WITH TIME ZONE")
        with pytest.raises(error):
            database.register("people", schema, **({"cap": 5, "holdout": "10%"} | changes))
        assert database.budgets() == []
