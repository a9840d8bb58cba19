"""Finding 2: equal means equal bytes, in every role of a column, or the column is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import dpsql
from dpsql.api.database import Database
from dpsql.compile.vocabulary import case, int_literal
from dpsql.engines.base import Engine
from dpsql.engines.postgres.vocabulary import PostgresVocabulary
from dpsql.errors import BudgetExceeded, DatabaseError, DpsqlError, SchemaError, TableChanged
from dpsql.schema import Schema
from tests.conformance.tables import run_in, source_in
from tests.servers import OPEN_EMPTY

#: How each engine spells a column under a collation that passes over letter case, and what must be there first.
COLLATED = {
    "duckdb": ("VARCHAR COLLATE NOCASE", ()),
    "postgres": (
        'TEXT COLLATE "public"."ci"',
        ("CREATE COLLATION public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",),
    ),
    "spark": ("STRING COLLATE UTF8_LCASE", ()),
}
#: Plain text, and where a table goes, in each engine.
TEXT = {"duckdb": "VARCHAR", "postgres": "TEXT", "spark": "STRING", "chdb": "String"}
ENDING = {"spark": " USING parquet", "chdb": " ENGINE = MergeTree ORDER BY tuple()"}
#: Each role of a text column, as the schema declares it.
ROLES: dict[str, dict[str, Any]] = {
    "feature": {"features": {"odd": {"type": "categorical", "values": ["north"]}}},
    "hashed": {"features": {"odd": {"type": "hashed"}}},
    "label": {"label": "odd", "classes": ["north", "south"]},
    "unit": {"privacy_unit": {"column": "odd", "max_rows": 1}},
    "partition": {"partition": "odd"},
    "batch": {"batch": "odd"},
}


def schema(**other: Any) -> dict[str, Any]:
    """Return a schema of one numeric feature, with other parts."""
    features = {"x": {"type": "numeric", "lower": 0, "upper": 1}} | other.pop("features", {})
    return {"label": "y", "classes": ["no", "yes"], "features": features} | other


@pytest.fixture(params=sorted(OPEN_EMPTY))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open an empty database of each engine."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        yield opened
        run_in(opened.engine, f"DROP TABLE IF EXISTS {opened.engine.home}.people")


@pytest.fixture(params=sorted(COLLATED))
def collated(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database of each engine that has collations, with a table whose column "odd" is under one."""
    kind, before = COLLATED[request.param]
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        run_in(opened.engine, *before, *table(opened.engine, request.param, kind))
        yield opened
        run_in(opened.engine, f"DROP TABLE {opened.engine.home}.people")


def table(engine: Engine, name: str, odd: str) -> list[str]:
    """Return statements that create the table "people", its column "odd" of a type, with a row for each letter case."""
    text, number = TEXT[name], "DOUBLE PRECISION" if name == "postgres" else "Float64" if name == "chdb" else "DOUBLE"
    full = f"{engine.home}.people"
    return [
        f"DROP TABLE IF EXISTS {full}",
        f"CREATE TABLE {full} (x {number}, y {text}, odd {odd}){ENDING.get(name, '')}",
        f"INSERT INTO {full} VALUES (0.1, 'yes', 'north'), (0.2, 'no', 'NORTH'), (0.3, 'yes', 'south')",
    ]


@pytest.mark.parametrize("role", ROLES)
def test_a_column_under_a_collation_is_refused_by_name_in_every_role(collated: Database, role: str) -> None:
    """Registering says which column, and nothing is written."""
    with pytest.raises(SchemaError, match='column "odd".*collation'):
        collated.register("people", schema(**ROLES[role]), cap=1)


def test_a_column_under_a_collation_may_be_there_without_a_role(collated: Database) -> None:
    """What the schema does not name is not read."""
    assert collated.register("people", schema(), cap=1).table == "people"


def test_a_collation_that_comes_later_stops_the_run_before_the_charge() -> None:
    """ALTER … COLLATE keeps the type's name, and is seen all the same."""
    with dpsql.connect(":memory:") as db:
        run_in(db.engine, *table(db.engine, "duckdb", "VARCHAR"))
        db.register("people", schema(batch="odd"), cap=1)
        run_in(db.engine, "ALTER TABLE people ALTER odd TYPE VARCHAR COLLATE NOCASE")
        with pytest.raises(TableChanged, match="NOCASE"):
            db.train("people", method="rdt", epsilon=1, trees=1, depth=1, batch="north")
        assert db.budget("people").spent == 0


def test_a_view_over_a_collated_column_is_refused() -> None:
    """In the view's columns and in its filter, DuckDB compares as the base column does."""
    with dpsql.connect(":memory:") as db:
        run_in(db.engine, *table(db.engine, "duckdb", "VARCHAR COLLATE NOCASE"))
        run_in(db.engine, "CREATE VIEW named AS SELECT x, y, lower(odd) AS region FROM people")
        run_in(db.engine, "CREATE VIEW picked AS SELECT x, y FROM people WHERE odd = 'north'")
        run_in(db.engine, "CREATE VIEW plain AS SELECT x, y FROM people")
        with pytest.raises(SchemaError, match='column "odd".*collation|row-to-row'):
            db.register("named", schema(batch="region"), cap=1)
        with pytest.raises(SchemaError, match='column "odd".*collation|row-to-row'):
            db.register("picked", schema(), cap=1)
        assert db.register("plain", schema(), cap=1).table == "plain"


@pytest.mark.parametrize("scope", ["", "SESSION ", "GLOBAL "])
def test_a_default_collation_of_the_callers_connection_has_no_say(scope: str) -> None:
    """A batch in another spelling is another batch, without rows, however the caller compares texts."""
    connection = duckdb.connect(":memory:")
    with dpsql.connect(connection) as db:
        run_in(db.engine, *table(db.engine, "duckdb", "VARCHAR"))
        db.register("people", schema(batch="odd"), cap=1)
        connection.execute(f"SET {scope}default_collation = 'nocase'")
        assert sizes(db, ("north", "NORTH", "North", "NORTH ", "south")) == [1, 1, 0, 0, 1]
        assert connection.execute("SELECT current_setting('default_collation')").fetchall() == [("nocase",)]


def test_a_locked_default_collation_is_refused() -> None:
    """Where the setting cannot be undone, dpsql does not work on that connection."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET GLOBAL default_collation = 'nocase'")
    connection.execute("SET lock_configuration = true")
    with pytest.raises(DatabaseError, match="collation"):
        dpsql.connect(connection)


def sizes(db: Database, batches: tuple[str, ...]) -> list[int]:
    """Return the number of rows that each batch of "people" has, by the kernel's own test, all in one statement."""
    rows = source_in(db.engine, Schema.from_dict(schema(batch="odd")), "people")
    query = exp.Select().from_(rows.table)
    for number, batch in enumerate(batches):
        reached = case([(rows.with_value("odd", batch).where, int_literal(1))], int_literal(0))  # type: ignore[list-item]
        query = query.select(exp.alias_(exp.Sum(this=reached), f"batch_{number}"))
    counted = db.engine.frame(query)
    return [int(counted[f"batch_{number}"][0]) for number in range(len(batches))]


#: One letter as one character, and as a letter with an accent after it.
COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"
#: What a column holds, and every name that someone could try for a batch of it; each row must have one name alone.
SPELLINGS: dict[str, tuple[dict[str, str], list[str], tuple[str, ...]]] = {
    "whole numbers": (
        {"duckdb": "INTEGER", "postgres": "INTEGER", "spark": "INT", "chdb": "Int32"},
        ["1", "-1", "0"],
        ("1", "01", "+1", " 1", "1 ", "1.0", "1e0", "-1", "- 1", "0", "-0", "00", "0x1"),
    ),
    "booleans": (
        {"duckdb": "BOOLEAN", "postgres": "BOOLEAN", "spark": "BOOLEAN", "chdb": "Bool"},
        ["true", "false"],
        ("true", "TRUE", "t", "1", "yes", "on", "false", "False", "f", "0"),
    ),
    "texts": (
        TEXT,
        ["'a'", "'a '", f"'{COMPOSED}'", f"'{DECOMPOSED}'", "'A'"],
        ("a", "a ", "A", "A ", " a", COMPOSED, DECOMPOSED, COMPOSED.upper(), "\uff21"),
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_row_is_in_a_batch_of_one_name(database: Database, name: str) -> None:
    """Over all spellings that someone may try, each row is reached once."""
    kinds, values, spellings = SPELLINGS[name]
    engine = database.engine
    known = {"clickhouse": "chdb"}.get(engine.dialect, engine.dialect)
    run_in(engine, *table(engine, known, kinds[known])[:2])
    inserted = ", ".join(f"(0.5, 'yes', {value})" for value in values)
    run_in(engine, f"INSERT INTO {engine.home}.people VALUES {inserted}")
    found = sizes(database, spellings)
    assert sum(found) == len(values)
    assert max(found) == 1


def test_the_caps_of_batches_are_those_of_bytes() -> None:
    """On a plain column two spellings are two batches: each is charged, and neither reaches the other's rows."""
    with dpsql.connect(":memory:") as db:
        run_in(db.engine, *table(db.engine, "duckdb", "VARCHAR"))
        db.register("people", schema(batch="odd"), cap=1)
        asked: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 1, "depth": 1}
        db.train("people", batch="north", **asked)
        db.train("people", batch="NORTH", **asked)
        with pytest.raises(BudgetExceeded):
            db.train("people", batch="north", name="again", **asked)


def test_a_renamed_value_of_an_enum_stops_the_run() -> None:
    """On PostgreSQL all rows of a batch could be given another name, and with it another budget."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(db.engine, "CREATE TYPE public.region AS ENUM ('north', 'NORTH', 'south')")
        run_in(db.engine, *table(db.engine, "postgres", "public.region"))
        db.register("people", schema(batch="odd"), cap=1)
        run_in(db.engine, "ALTER TYPE public.region RENAME VALUE 'north' TO 'west'")
        with pytest.raises(TableChanged, match="west"):
            db.train("people", method="rdt", epsilon=1, trees=1, depth=1, batch="west")


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("public.citext", ["CREATE EXTENSION citext WITH SCHEMA public"]),
        ("public.loose", ["CREATE EXTENSION citext WITH SCHEMA public", "CREATE DOMAIN public.loose AS public.citext"]),
        ("public.mine", [*COLLATED["postgres"][1], 'CREATE DOMAIN public.mine AS TEXT COLLATE "public"."ci"']),
        (
            "public.region",
            [
                "CREATE TYPE public.region AS ENUM ('north', 'NORTH', 'south')",
                "CREATE FUNCTION public.same(public.region) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'north'$$",
                "CREATE CAST (public.region AS text) WITH FUNCTION public.same(public.region)",
            ],
        ),
    ],
    ids=["citext", "domain of citext", "domain with a collation", "enum with a cast"],
)
def test_a_type_that_calls_other_texts_equal_is_refused(kind: str, before: list[str]) -> None:
    """Types of extensions and users decide for themselves what is equal, or what text they are."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        try:
            run_in(db.engine, *before)
        except DpsqlError:
            pytest.skip("postgres: the extension citext is not installed")
        run_in(db.engine, *table(db.engine, "postgres", kind))
        for role in ROLES.values():
            with pytest.raises(SchemaError, match="odd"):
                db.register("people", schema(**role), cap=1)


@pytest.mark.parametrize("kind", ["bpchar", "interval", "public.blank"])
@pytest.mark.parametrize("role", ["unit", "partition"])
def test_types_that_call_different_bytes_equal_are_refused(kind: str, role: str) -> None:
    """CHAR without a length passes over blanks at the end, and a month is 30 days: units would push each other out."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(db.engine, "CREATE DOMAIN public.blank AS bpchar")
        run_in(db.engine, f"CREATE TABLE public.people (x FLOAT8, y TEXT, odd {kind})")
        with pytest.raises(SchemaError, match='column "odd"'):
            db.register("people", schema(**ROLES[role]), cap=1)


def test_numbers_are_units_by_their_value() -> None:
    """NUMERIC 1.0 and 1.00 are one number, so one unit: equality and ticket agree. CHAR(n) has equal blanks always."""
    hashed = PostgresVocabulary().keyed_hash([exp.column("unit")], [7, 8]).sql("postgres")
    for kind, given in {
        "numeric": "('1.0'), ('1.00')",
        "float8": "('0.0'), ('-0.0')",
        "char(8)": "('a'), ('a ')",
    }.items():
        with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
            run_in(db.engine, f"CREATE TABLE public.people (x FLOAT8, y TEXT, unit {kind})")
            run_in(db.engine, f"INSERT INTO public.people (unit) VALUES {given}")
            db.register("people", schema(privacy_unit={"column": "unit", "max_rows": 1}), cap=1)
            with db.engine.transaction() as transaction:
                rows = transaction.rows(f"SELECT unit, {hashed} AS ticket FROM public.people")
            assert len({row["ticket"] for row in rows}) == 1
