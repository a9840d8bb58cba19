"""Registering: the catalog alone decides, a table has one budget, views only row to row, nothing is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import (
    BudgetExceeded,
    NotRegistered,
    ParameterError,
    SchemaError,
    TableChanged,
    UnknownName,
    UsageError,
)
from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods import DEFAULT
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Unit
from tests.tables import SCHEMA, SMALL, fill, on_disk, rows_of, run, some_rows, stored


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with a table "people" that is not registered."""
    with connect(tmp_path / "data.duckdb", create=True, who="ann") as opened:
        fill(opened.engine, "people", some_rows())
        yield opened


def with_features(*features: Any, label: str = "y", unit: Unit | None = None) -> Schema:
    """Return a schema with these features."""
    return Schema(label, ("no", "yes"), features, unit or Unit())


def test_registering_is_an_entry(database: Database) -> None:
    """The ledger has the owner's act: table, cap, schema, base, columns and limits."""
    dataset = database.register("people", SCHEMA, cap="2.5")
    (entry,) = database.book.entries()
    assert (entry.event, entry.table, entry.cap, entry.who) == ("register", "people", 2_500_000_000, "ann")
    assert entry.details == dataset.details() | {"lost_runs": 5, "least_epsilon": "0.001"}
    assert database.verify() == []


class Spied:
    """A DuckDB connection or cursor that writes down every statement it is given."""

    def __init__(self, inner: Any, heard: list[str]) -> None:
        self._inner, self.heard = inner, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cursor(self) -> Spied:
        """Return a cursor that is spied on too."""
        return Spied(self._inner.cursor(), self.heard)

    def execute(self, statement: str, *rest: Any) -> Any:
        """Run a statement and write it down."""
        self.heard.append(statement)
        return self._inner.execute(statement, *rest)


def test_registering_and_planning_read_no_row(database: Database) -> None:
    """Until training starts the table is named by one statement, which writes its identity into its comment.

    The catalog is asked with the name as a parameter.
    """
    engine: Any = database.engine
    engine.connection = Spied(engine.connection, [])
    database.register("people", SCHEMA, cap=1)
    database.plan("people", **SMALL)
    database.explain("people", **SMALL)
    assert len(engine.connection.heard) > 10
    heard = [re.sub("--.*", "", statement) for statement in engine.connection.heard]
    (marking,) = [statement for statement in heard if "people" in statement]
    assert re.fullmatch(r'COMMENT ON TABLE "data"."main"."people" IS \'\[dpsql [0-9a-f]{32}\]\'', marking)
    engine.connection.heard.clear()
    database.train("people", method="rosnam", **SMALL)
    assert len([statement for statement in engine.connection.heard if '"people"' in statement]) == 1


@pytest.mark.parametrize(
    "schema",
    [
        with_features(Numeric("c", 0, 1)),
        with_features(Boolean("c")),
        with_features(Boolean("person")),
        with_features(Categorical("x", ("1", "2"))),
        with_features(Numeric("born", 0, 1)),
        with_features(Numeric("list", 0, 1)),
        with_features(Numeric("person", 0, 1), label="x"),
        with_features(Numeric("person", 0, 1), label="born"),
    ],
    ids=lambda schema: f"{schema.features[0].name} {schema.features[0].kind} {schema.label}",
)
def test_types_that_do_not_fit_are_refused(database: Database, schema: Schema) -> None:
    """A feature or label whose column has a type of another kind is refused, and nothing is registered."""
    run(database.engine, "ALTER TABLE people ADD COLUMN born DATE", "ALTER TABLE people ADD COLUMN list INTEGER[]")
    with pytest.raises(SchemaError) as caught:
        database.register("people", schema, cap=1)
    assert '"people" is ' in str(caught.value)
    assert database.book.entries() == []


def test_an_unknown_table_offers_near_names(database: Database) -> None:
    """A misspelled table is refused with the one that was meant."""
    with pytest.raises(UnknownName) as caught:
        database.register("poeple", SCHEMA, cap=1)
    assert caught.value.nearest == ["people"]


def test_an_unknown_column_offers_near_names(database: Database) -> None:
    """A misspelled column is refused with the one that was meant."""
    with pytest.raises(UnknownName) as caught:
        database.register("people", with_features(Numeric("persons", 0, 1)), cap=1)
    assert caught.value.nearest == ["person"]


def test_letter_case_does_not_matter(database: Database) -> None:
    """Names are taken as the catalog spells them."""
    dataset = database.register("PEOPLE", with_features(Numeric("X", 0, 1), label="Y"), cap=1)
    assert (dataset.table, dataset.schema.label, dataset.schema.features[0].name) == ("people", "y", "x")
    assert database.plan("People", **SMALL).method == DEFAULT


def test_the_label_cannot_be_a_feature() -> None:
    """A label that is listed as a feature is refused, whatever its letter case."""
    with pytest.raises(SchemaError, match="also listed as a feature"):
        with_features(Categorical("Y", ("no", "yes")))


def test_a_second_registration_is_refused(database: Database) -> None:
    """A table has one budget: the second registration changes nothing."""
    database.register("people", SCHEMA, cap=1)
    before = stored(database)
    with pytest.raises(UsageError, match="one budget"):
        database.register("People", SCHEMA, cap=100)
    assert stored(database) == before


def test_replacing_keeps_what_is_spent(database: Database) -> None:
    """A new schema and cap take effect; what was spent stays spent, under the same id."""
    first = database.register("people", SCHEMA, cap=2)
    database.train("people", epsilon="1.5", **SMALL)
    second = database.register("people", with_features(Numeric("x", 0, 10)), cap=3, replace=True)
    budget = database.budget("people")
    assert (second.id, budget.spent, budget.cap) == (first.id, 1_500_000_000, 3_000_000_000)
    assert [feature.name for feature in database.train("people", **SMALL).schema.features] == ["x"]


def test_replacing_cannot_lift_a_cap(database: Database) -> None:
    """A dataset that has had a cap cannot be made public again by registering it anew."""
    database.register("people", SCHEMA, cap=2)
    before = stored(database)
    with pytest.raises(ParameterError):
        database.register("people", SCHEMA, cap=None, replace=True)
    assert stored(database) == before


def test_replace_needs_an_earlier_registration(database: Database) -> None:
    """`replace` on a table that is not registered is refused."""
    with pytest.raises(ParameterError):
        database.register("people", SCHEMA, cap=1, replace=True)


@pytest.mark.parametrize("cap", ["nan", 0, -1, "1e400", "abc", True, float("inf"), "", [1]], ids=str)
def test_a_bad_cap_is_refused(database: Database, cap: object) -> None:
    """A cap that is not a positive number is a ParameterError called cap, and nothing is registered."""
    with pytest.raises(ParameterError) as caught:
        database.register("people", SCHEMA, cap=cap)
    assert caught.value.name == "cap"
    assert database.book.entries() == []


@pytest.mark.parametrize(
    "epsilon", ["nan", float("nan"), 0, -1, "1e400", 10**400, "abc", None, True, "", b"1"], ids=lambda e: repr(e)[:9]
)
def test_a_bad_epsilon_charges_nothing(database: Database, epsilon: object) -> None:
    """An epsilon that is not a positive number is a ParameterError, and leaves no trace."""
    database.register("people", SCHEMA, cap=1)
    before = stored(database)
    with pytest.raises(ParameterError) as caught:
        database.train("people", epsilon=epsilon, **SMALL)
    assert caught.value.name == "epsilon"
    assert stored(database) == before


def test_a_copy_has_no_budget(database: Database) -> None:
    """A copy of a registered table cannot be trained on until its owner registers it."""
    database.register("people", SCHEMA, cap=1)
    run(database.engine, "CREATE TABLE twin AS FROM people")
    before = stored(database)
    with pytest.raises(NotRegistered) as caught:
        database.train("twin", **SMALL)
    assert caught.value.exit_code == 3
    assert stored(database) == before


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE people DROP COLUMN x",
        "ALTER TABLE people RENAME COLUMN c TO d",
        "ALTER TABLE people ALTER COLUMN x TYPE INTEGER USING 1",
        "ALTER TABLE people RENAME TO humans",
        "DROP TABLE people",
    ],
)
def test_a_changed_table_charges_nothing(database: Database, change: str) -> None:
    """Columns gone, renamed or of another type since registration are refused with exit code 4, and leave no trace."""
    database.register("people", SCHEMA, cap=1)
    before = stored(database)
    run(database.engine, change)
    with pytest.raises(TableChanged) as caught:
        database.train("people", **SMALL)
    assert caught.value.exit_code == 4
    assert stored(database) == before


def test_a_new_column_changes_nothing(database: Database) -> None:
    """A column that the schema does not name may come and go."""
    database.register("people", SCHEMA, cap=1)
    run(database.engine, "ALTER TABLE people ADD COLUMN note VARCHAR")
    assert database.train("people", **SMALL).method == DEFAULT


VIEW = "CREATE VIEW adults AS SELECT x AS z, c, y, person FROM people WHERE x >= 18"


def view_schema() -> Schema:
    """Return the schema of the view "adults"."""
    return Schema("y", SCHEMA.classes, (Categorical("c", ("a", "b")), Numeric("z", 0, 64)))


def test_a_row_to_row_view_is_counted_like_its_filter(database: Database) -> None:
    """Training on a view that renames and filters counts the rows that the same filter on the base table gives."""
    from dpsql.kernel.datasets.dataset import find_dataset, source

    run(database.engine, VIEW)
    database.register("adults", view_schema(), cap=10)
    dataset = find_dataset(database.engine, database.book, "adults")
    plan = Plan("test", Step("n", Size(), 10**12), Promise(Unit()))
    size = Session(database.engine, source(database.engine, dataset), plan).size("n")
    expected = "SELECT count(*) AS n FROM people WHERE x >= 18 AND y IN ('no', 'yes', 'maybe')"
    assert size == rows_of(database.engine, expected)[0]["n"]
    assert database.train("adults", **SMALL).table == "adults"


def test_a_redefined_view_is_not_the_dataset_that_was_registered(database: Database) -> None:
    """When a view gets another text, though the same columns, training is refused and nothing is charged."""
    run(database.engine, VIEW)
    database.register("adults", view_schema(), cap=10)
    run(database.engine, VIEW.replace("CREATE", "CREATE OR REPLACE").replace(">= 18", ">= 19"))
    with pytest.raises(TableChanged, match="redefined"):
        database.train("adults", **SMALL)
    assert database.budget("adults").spent == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, c, y FROM people UNION ALL SELECT x, c, y FROM people",
        "SELECT a.x, a.c, a.y FROM people a JOIN people b ON a.c = b.c",
        "SELECT x, c, min(y) AS y FROM people GROUP BY ALL",
        "SELECT DISTINCT x, c, y FROM people",
        "SELECT x, c, y FROM people LIMIT 5",
        "SELECT x, c, y FROM people ORDER BY x LIMIT 3",
        "SELECT avg(x) OVER () AS x, c, y FROM people",
        "SELECT x, c, y FROM people WHERE x > (SELECT avg(x) FROM people)",
        "SELECT unnest([1.0, 2.0]) AS x, c, y FROM people",
        "SELECT random() AS x, c, y FROM people",
        "SELECT 1.0 AS x, 'a' AS c, 'no' AS y",
    ],
)
def test_other_views_are_refused(database: Database, query: str) -> None:
    """A view that is not provably row to row on one table is refused, and nothing is registered."""
    run(database.engine, f"CREATE VIEW other AS {query}")
    with pytest.raises(SchemaError):
        database.register("other", SCHEMA, cap=1)
    assert database.book.entries() == []


def test_a_view_of_a_view_is_refused(database: Database) -> None:
    """A view must read its table directly."""
    run(database.engine, VIEW, "CREATE VIEW again AS SELECT z, c, y FROM adults")
    with pytest.raises(SchemaError):
        database.register("again", view_schema(), cap=1)


@pytest.mark.parametrize(("first", "second"), [("people", "adults"), ("adults", "people"), ("adults", "others")])
def test_one_base_table_has_one_budget(database: Database, first: str, second: str) -> None:
    """A view of a registered table, its base, and another view of the base are refused: their rows have a budget."""
    run(database.engine, VIEW, VIEW.replace("adults", "others"))
    schemas = {"people": SCHEMA, "adults": view_schema(), "others": view_schema()}
    database.register(first, schemas[first], cap=1)
    before = stored(database)
    with pytest.raises(UsageError, match="one budget"):
        database.register(second, schemas[second], cap=1)
    assert stored(database) == before


def test_a_view_that_now_reads_another_table_is_refused(database: Database) -> None:
    """A view redefined onto another table since registration has no budget there."""
    run(database.engine, VIEW, "CREATE TABLE strangers AS FROM people")
    database.register("adults", view_schema(), cap=1)
    before = stored(database)
    run(database.engine, VIEW.replace("VIEW", "OR REPLACE VIEW").replace("FROM people", "FROM strangers"))
    with pytest.raises(TableChanged):
        database.train("adults", **SMALL)
    assert stored(database) == before


def test_the_cap_holds_over_many_runs(tmp_path: Path) -> None:
    """Runs are given until the cap is spent, to the nano, and not beyond."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap="0.3", least_epsilon="1e-9") as opened:
        for _ in range(3):
            opened.train("people", epsilon=0.1, method="rosnam", **SMALL)
        with pytest.raises(BudgetExceeded):
            opened.train("people", epsilon="0.000000001", method="rosnam", **SMALL)
        assert opened.budget("people").left == 0
