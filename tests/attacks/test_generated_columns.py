"""Finding 5: a column that is computed when it is read can fail on a row, so it has no role, not even in a view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dpsql.api.database import Database
from dpsql.errors import DpsqlError, SchemaError, TableChanged, UnknownName
from tests.attacks.test_equality import ROLES, schema
from tests.conformance.tables import run_in
from tests.servers import OPEN_EMPTY

#: Tables whose column "odd" is computed, in each engine that computes columns when they are read.
COMPUTED = {
    "duckdb": [
        "CREATE TABLE people (x DOUBLE, y VARCHAR, raw VARCHAR, odd VARCHAR GENERATED ALWAYS AS (CAST(raw AS DATE)))",
        "INSERT INTO people (x, y, raw) VALUES (0.5, 'yes', '2020-01-01')",
        "UPDATE people SET raw = 'no date'",
    ],
    "chdb": [
        "DROP TABLE IF EXISTS people",
        "CREATE TABLE people (x Float64, y String, raw String) ENGINE = MergeTree ORDER BY tuple()",
        "INSERT INTO people VALUES (0.5, 'yes', 'no number')",
        "ALTER TABLE people ADD COLUMN odd String DEFAULT toString(toInt32(raw))",
    ],
}
ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 1, "depth": 1}


@pytest.fixture(params=sorted(COMPUTED))
def computed(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database whose table has a computed column that fails on its one row."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        run_in(opened.engine, *COMPUTED[request.param])
        yield opened
        run_in(opened.engine, "DROP TABLE people")


@pytest.mark.parametrize("role", ROLES)
def test_a_computed_column_is_refused_by_name_in_every_role(computed: Database, role: str) -> None:
    """Registering says which column, whatever the rows hold."""
    with pytest.raises(SchemaError, match='column "odd".*computed'):
        computed.register("people", schema(**ROLES[role]), cap=1)


def test_a_computed_column_without_a_role_is_never_evaluated(computed: Database) -> None:
    """No statement reads all columns: a run on the others ends well, whatever the computed one would do."""
    computed.register("people", schema(), cap=1)
    assert computed.train("people", **ASKED).table == "people"


@pytest.mark.parametrize("kind", ["ALIAS", "MATERIALIZED", "DEFAULT"])
def test_every_kind_of_expression_of_chdb_counts_as_computed(kind: str) -> None:
    """A MATERIALIZED or DEFAULT column that was added later is worked out for the rows before it; an ALIAS for all."""
    with Database(OPEN_EMPTY["chdb"](), who="ann") as db:
        run_in(db.engine, *COMPUTED["chdb"][:3])
        run_in(db.engine, f"ALTER TABLE people ADD COLUMN odd String {kind} toString(toInt32(raw))")
        with pytest.raises((SchemaError, UnknownName), match='"odd"'):
            db.register("people", schema(**ROLES["batch"]), cap=1)


def test_a_constant_default_of_chdb_is_no_computation() -> None:
    """It is the same for every row, and cannot fail on one."""
    with Database(OPEN_EMPTY["chdb"](), who="ann") as db:
        run_in(db.engine, *COMPUTED["chdb"][:3], "ALTER TABLE people ADD COLUMN odd String DEFAULT 'north'")
        assert db.register("people", schema(**ROLES["batch"]), cap=1).table == "people"


def test_a_change_of_types_that_failed_is_refused() -> None:
    """chDB casts such a column anew at each reading, and the cell that stopped the change stops that too."""
    with Database(OPEN_EMPTY["chdb"](), who="ann") as db:
        run_in(db.engine, *COMPUTED["chdb"][:3])
        with pytest.raises(RuntimeError):
            run_in(db.engine, "ALTER TABLE people MODIFY COLUMN raw Int32")
        with pytest.raises(SchemaError, match="has not ended"):
            db.register("people", schema(partition="raw"), cap=1)


def test_a_view_over_a_computed_column_is_refused() -> None:
    """Its columns and its filter would be evaluated with the computed column inside."""
    with Database(OPEN_EMPTY["duckdb"](), who="ann") as db:
        run_in(db.engine, *COMPUTED["duckdb"])
        run_in(db.engine, "CREATE VIEW named AS SELECT x, y, lower(odd) AS region FROM people")
        run_in(db.engine, "CREATE VIEW picked AS SELECT x, y FROM people WHERE odd IS NULL")
        for view, role in (("named", {"batch": "region"}), ("picked", {})):
            with pytest.raises(SchemaError, match='column "odd".*computed'):
                db.register(view, schema(**role), cap=1)


def test_a_temporary_view_of_spark_that_can_fail_is_refused() -> None:
    """Its expressions are worked out at each reading; one that only names and widens columns may be registered."""
    with Database(OPEN_EMPTY["spark"](), who="ann") as db:
        session = db.engine.session  # type: ignore[attr-defined]
        rows = session.createDataFrame([(0.5, "yes", "no number")], "x float, y string, raw string")
        rows.selectExpr("x", "y", "cast(raw as int) AS odd").createOrReplaceTempView("computing")
        rows.where("cast(raw as int) > 0").createOrReplaceTempView("picking")
        rows.selectExpr("cast(x as double) AS x", "y").where("x < 1").createOrReplaceTempView("naming")
        for view in ("computing", "picking"):
            with pytest.raises(SchemaError, match="can fail on a row"):
                db.register(view, schema(), cap=1)
        assert db.register("naming", schema(), cap=1).table == "naming"


def test_a_stored_generated_column_of_postgres_may_have_a_role() -> None:
    """It is read as it was stored: no row can make that fail."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(
            db.engine,
            "CREATE TABLE public.people (x FLOAT8, y TEXT, odd TEXT GENERATED ALWAYS AS (upper(y)) STORED)",
            "INSERT INTO public.people VALUES (0.5, 'yes')",
        )
        db.register("people", schema(batch="odd"), cap=1)
        assert db.train("people", batch="YES", **ASKED).table == "people"


POLICY = "CREATE POLICY seen ON public.people USING (1 / CAST(x AS INT) > 0)"


def test_row_level_security_that_binds_the_role_is_refused_when_registering() -> None:
    """A policy is an expression on each row: without the right to pass it over, nothing is read at all."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        _people(db, "ALTER TABLE public.people ENABLE ROW LEVEL SECURITY", POLICY)
        with _as_reader(db) as reader, pytest.raises(SchemaError, match="row-level security"):
            reader.register("people", schema(), cap=1)


def test_row_level_security_that_comes_later_stops_the_run_before_the_charge() -> None:
    """The same when it was switched on after the table was registered."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        _people(db)
        with _as_reader(db) as reader:
            reader.register("people", schema(), cap=1)
            run_in(db.engine, "ALTER TABLE public.people ENABLE ROW LEVEL SECURITY", POLICY)
            with pytest.raises(TableChanged, match="row-level security"):
                reader.train("people", **ASKED)
            assert reader.budget("people").spent == 0


def test_a_foreign_table_among_the_parts_is_refused() -> None:
    """A line of a file that cannot be read would make every run on the parent fail."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        _people(db)
        try:
            run_in(db.engine, "CREATE EXTENSION file_fdw")
        except DpsqlError:
            pytest.skip("postgres: the extension file_fdw is not installed")
        run_in(
            db.engine,
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE public.more (x FLOAT8, y TEXT) INHERITS (public.people) "
            "SERVER files OPTIONS (filename '/nowhere', format 'csv')",
        )
        with pytest.raises(SchemaError, match="foreign table"):
            db.register("people", schema(), cap=1)


def _people(db: Database, *more: str) -> None:
    run_in(
        db.engine,
        "CREATE TABLE public.people (x FLOAT8, y TEXT)",
        "INSERT INTO public.people VALUES (0, 'yes')",
        *more,
    )


def _as_reader(db: Database) -> Database:
    """Return the same database, as a role that owns the ledger and may read the table."""
    conninfo = psycopg.conninfo.make_conninfo(db.engine._conninfo, user="reader", password="")  # type: ignore[attr-defined]
    run_in(
        db.engine,
        "DO $$BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END$$",
        "GRANT SELECT ON public.people TO reader",
        "GRANT CREATE ON DATABASE " + psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"] + " TO reader",
    )
    from dpsql.engines.open_engine import open_engine

    return Database(open_engine(_url(conninfo)), who="reader")


def _url(conninfo: str) -> str:
    known = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"postgresql://{known['user']}@{known['host']}:{known['port']}/{known['dbname']}"
