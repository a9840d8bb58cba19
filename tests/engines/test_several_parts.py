"""Names of several parts mean the same table on every engine, by every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from sqlglot import parse_one

import dpsql
from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line
from dpsql.engines.table_names import find_place
from dpsql.errors import UsageError
from tests.attacks.budgets import SCHEMA, TINY
from tests.servers import fresh_database
from tests.tables import run

ROWS = "SELECT CAST(n AS DOUBLE PRECISION) AS x, CAST('a' AS VARCHAR) AS c, CAST('yes' AS VARCHAR) AS y FROM numbers"
OPEN: dict[str, Callable[[], Database]] = {
    "duckdb": lambda: connect(":memory:", who="ann"),
    "postgres": lambda: connect(fresh_database(), who="ann"),
}


@pytest.mark.parametrize("engine", sorted(OPEN))
def test_a_quoted_name_means_its_table(engine: str) -> None:
    """Schema and table with spaces and dots, each part quoted, are registered and trained on."""
    with OPEN[engine]() as db:
        run(
            db.engine,
            f"CREATE TABLE {db.engine.home}.numbers (n INTEGER)",
            f"INSERT INTO {db.engine.home}.numbers VALUES (1), (2), (3)",
            'CREATE SCHEMA "my schema"',
            f'CREATE TABLE "my schema"."a.table" AS {ROWS.replace("numbers", f"{db.engine.home}.numbers")}',
        )
        db.register('"my schema"."a.table"', SCHEMA, cap=1)
        db.train('"my schema"."a.table"', **TINY)
        assert db.budget("my schema.a.table").spent_text == "0.5"
        assert db.engine.table(f"{db.engine.home}.numbers") == db.engine.table("numbers")


def test_postgres_takes_its_own_database_before_the_schema() -> None:
    """`database.schema.table` is the table; another database's name is not taken."""
    with OPEN["postgres"]() as db:
        run(db.engine, "CREATE TABLE public.people (x INTEGER)")
        query = parse_one("SELECT current_database() AS name", dialect="postgres")
        name = db.engine.frame(query)["name"][0]
        assert db.engine.table(f"{name}.public.people") == db.engine.table("people") is not None
        assert db.engine.table(f'"{name}"."public"."people"') is not None
        assert db.engine.table("elsewhere.public.people") is None


def test_a_table_called_like_quoted_parts_is_not_guessed() -> None:
    """A table whose own name is `"hr"."people"` and the table people of schema hr: the name is refused."""
    places = [("main", '"hr"."people"'), ("hr", "people")]
    with pytest.raises(UsageError, match="two tables"):
        find_place(places, '"hr"."people"', schema=None, home="main")
    assert find_place(places, "hr.people", schema=None, home="main") == ("hr", "people")


def test_sql_reaches_an_attached_table(tmp_path: Path) -> None:
    """`dpsql_train` in SQL takes the same names, and scoring a public attached table does."""
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS hr")
        connection.execute("CREATE TABLE numbers AS SELECT range AS n FROM range(20)")
        connection.execute(f"CREATE TABLE hr.people AS {ROWS}")
        connection.execute(f"CREATE TABLE hr.fresh AS {ROWS}")
        db = dpsql.attach(connection, who="ann")
        db.register("hr.main.people", SCHEMA, cap=1)
        connection.execute(
            "FROM dpsql_train('hr.people', name := 'm', epsilon := 0.5, method := 'rdt', trees := 1, depth := 1)"
        )
        assert db.budget("hr.people").spent_text == "0.5"
        assert len(db.model("m").predict("hr.fresh")) == 20
        assert "hr" in db.explain("hr.people", **TINY).statement_sql


def test_sql_keeps_to_the_use_of_its_connection(tmp_path: Path) -> None:
    """USE before `dpsql.attach` decides which table a name means inside SQL, too."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS hr")
        connection.execute("CREATE TABLE hr.numbers AS SELECT range AS n FROM range(20)")
        connection.execute("USE hr")
        connection.execute(f"CREATE TABLE people AS {ROWS}")
        db = dpsql.attach(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        connection.execute("FROM dpsql_train('people', epsilon := 0.5, method := 'rdt', trees := 1, depth := 1)")
    with connect(tmp_path / "other.duckdb") as direct:
        assert direct.budget("people").spent_text == "0.5"


def test_the_command_line_attaches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Register, train, predict and the ledger by --attach; the next steps carry the option."""
    other, books = str(tmp_path / "other.duckdb"), str(tmp_path / "books.duckdb")
    with duckdb.connect(other) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT range AS n FROM range(20)")
        connection.execute(f"CREATE TABLE people AS {ROWS}")
        connection.execute(f"CREATE TABLE fresh AS {ROWS}")
    connect(books, create=True).close()
    place = ["--db", books, "--attach", f"hr={other}"]
    schema = ["--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64", "--categorical", "c:a,b"]
    assert run_command_line(["register", *place, "--table", "hr.people", "--cap", "2", *schema]) == 0
    assert f"--attach hr={other} --table hr.people --dry-run" in capsys.readouterr().err
    assert run_command_line(["train", *place, "--table", "hr.people", "--method", "rdt", "--name", "m"]) == 0
    assert run_command_line(["predict", *place, "--model", "m", "--table", "hr.fresh"]) == 0
    assert run_command_line(["predict", *place, "--model", "m", "--table", "hr.people"]) == 3
    assert run_command_line(["ledger", *place, "--table", "hr.people"]) == 0
    assert run_command_line(["schema", "draft", *place, "--table", '"hr"."people"']) == 0
