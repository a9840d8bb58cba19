"""Tables of attached DuckDB files: one budget by every route, one state in a run, one sentence for every failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import parse_one

from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line
from dpsql.engines.duckdb.attached import Catalog, why_unfit
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import DatabaseError, DpsqlError, ParameterError, SchemaError, TableChanged, UsageError
from dpsql.models.score import public_table
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look, assert_one_budget

ROWS = "SELECT CAST(range AS DOUBLE) AS x, 'a' AS c, 'yes' AS y FROM range(20)"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return a DuckDB file with a table "people", one with odd names in it, and a public one."""
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people AS {ROWS}")
        connection.execute(f"CREATE TABLE newcomers AS {ROWS}")
        connection.execute('CREATE SCHEMA "my hr"')
        connection.execute(f'CREATE TABLE "my hr"."t.u" AS {ROWS}')
    return path


@pytest.fixture
def db(tmp_path: Path, other: Path) -> Iterator[Database]:
    """Open a database with that file attached as "hr"."""
    with connect(tmp_path / "data.duckdb", create=True, who="ann", attach=[f"hr={other}"]) as opened:
        yield opened


def comment_of(path: Path, table: str) -> str | None:
    """Return the comment of a table in a closed file."""
    with duckdb.connect(str(path), read_only=True) as connection:
        (row,) = connection.execute("SELECT comment FROM duckdb_tables() WHERE table_name = ?", [table]).fetchall()
    return row[0]  # type: ignore[no-any-return]


# One budget.


def test_the_table_opened_directly_has_no_second_budget(db: Database, other: Path) -> None:
    """Registered through the attached name, it is known when its own file is opened."""
    db.register("hr.people", SCHEMA, cap=1)
    db.train("hr.people", **TINY)
    assert db.budget("hr.people").spent_text == "0.5"
    db.close()
    with connect(other) as direct:
        with pytest.raises(UsageError, match="another ledger"):
            direct.register("people", SCHEMA, cap=1)
        assert_no_free_look(direct, "people")


def test_the_table_registered_directly_has_no_second_budget_when_attached(tmp_path: Path, other: Path) -> None:
    """Registered in its own file, it can be neither registered nor looked at through an attached name."""
    with connect(other, who="ann") as direct:
        direct.register("people", SCHEMA, cap=1)
    with connect(tmp_path / "data.duckdb", create=True, attach=[other]) as db:
        with pytest.raises(UsageError, match="another ledger"):
            db.register("other.people", SCHEMA, cap=1)
        assert_no_free_look(db, "other.people")


def test_under_another_name_it_is_the_same_table(db: Database, other: Path, tmp_path: Path) -> None:
    """The file attached under another name keeps the budget; `replace` takes it along."""
    db.register("hr.people", SCHEMA, cap=1)
    db.train("hr.people", **TINY)
    db.close()
    with connect(tmp_path / "data.duckdb", attach=[f"staff={other}"]) as again:
        assert_one_budget(again, "staff.people")
        with pytest.raises(TableChanged, match="renamed"):
            again.train("staff.people", **TINY)
        again.register("staff.people", SCHEMA, cap=1, replace=True)
        assert again.budget("staff.people").spent_text == "0.5"


@pytest.mark.parametrize("name", ["staff", "link"])
def test_a_file_that_cannot_be_written_is_known_by_itself(tmp_path: Path, other: Path, name: str) -> None:
    """Without a mark the file and the table's name tell it, whatever it is attached as, and by a link."""
    other.chmod(0o444)
    with connect(tmp_path / "data.duckdb", create=True, attach=[f"hr={other}"]) as db:
        db.register("hr.people", SCHEMA, cap=1)
        db.train("hr.people", **TINY)
        assert db.engine.table("hr.newcomers") is not None
        public_table(db, "hr.newcomers")
    assert comment_of(other, "people") is None
    link = tmp_path / "link.duckdb"
    os.link(other, link)
    with connect(tmp_path / "data.duckdb", attach=[f"{name}={link}"]) as again:
        assert_one_budget(again, f"{name}.people")


def test_a_view_of_an_attached_table_has_its_budget(db: Database) -> None:
    """A view over it is unfolded onto it; one with a database's name in it, or inside the attached file, is refused."""
    with db.engine.transaction() as transaction:
        transaction.run("CREATE VIEW seen AS SELECT x, c, y FROM hr.people")
        transaction.run("CREATE VIEW far AS SELECT x, c, y FROM hr.main.people")
    db.register("seen", SCHEMA, cap=1)
    assert_one_budget(db, "hr.people")
    assert_no_free_look(db, "far")
    with pytest.raises(SchemaError):
        db.register("far", SCHEMA, cap=1)
    model = db.train("seen", **TINY)
    assert model.certificate["private"]


def test_a_view_inside_an_attached_file_is_refused(tmp_path: Path, other: Path) -> None:
    """What it reads there cannot be told, so it has no budget and no free look."""
    with duckdb.connect(str(other)) as connection:
        connection.execute("CREATE VIEW seen AS SELECT * FROM people")
    with connect(tmp_path / "data.duckdb", create=True, attach=[other]) as db:
        with pytest.raises(SchemaError, match="view of an attached database"):
            db.register("other.seen", SCHEMA, cap=1)
        assert_no_free_look(db, "other.seen")


def test_a_registration_that_is_undone_leaves_no_mark(
    db: Database, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is committed before the ledger's entry; where the entry fails, the mark is taken back."""

    def fail(*_: object, **__: object) -> None:
        raise ParameterError("cap", allowed="something else", given="this")

    with monkeypatch.context() as patched:
        patched.setattr("dpsql.owner.register._check_disjoint", fail)
        with pytest.raises(ParameterError):
            db.register("hr.people", SCHEMA, cap=1)
    db.close()
    assert comment_of(other, "people") is None


def test_a_later_failure_leaves_the_mark_of_a_registered_table(db: Database, other: Path) -> None:
    """Only the registration that wrote a mark takes it back."""
    db.register("hr.people", SCHEMA, cap=1)
    with pytest.raises(ZeroDivisionError), db.engine.transaction():
        raise ZeroDivisionError
    db.close()
    assert "[dpsql " in str(comment_of(other, "people"))


# Names.


@pytest.mark.parametrize("name", ['"hr"."my hr"."t.u"', "hr.my hr.t.u", 'HR."my hr"."t.u"'])
def test_odd_names_mean_their_table(db: Database, name: str) -> None:
    """Quoted as in SQL or written out, a name of three parts means one table, and a run counts its rows."""
    db.register(name, SCHEMA, cap=1)
    db.train(name, **TINY)
    assert db.budget(name).table == "hr.my hr.t.u"


def test_a_name_that_means_two_tables_is_refused(db: Database) -> None:
    """A schema and an attached database of one name: neither is guessed."""
    with db.engine.transaction() as transaction:
        transaction.run("CREATE SCHEMA hr")
        transaction.run(f"CREATE TABLE data.hr.people AS {ROWS}")
    with pytest.raises(UsageError, match="two tables"):
        db.engine.table("hr.people")
    info = db.engine.table('"hr"."main"."people"')
    assert info is not None
    assert info.schema == '"hr"."main"'


def test_the_homes_schema_may_be_named(db: Database) -> None:
    """`main.people`, `data.people` and `data.main.people` are the table `people`."""
    with db.engine.transaction() as transaction:
        transaction.run(f"CREATE TABLE people AS {ROWS}")
    names = ["people", "main.people", "data.people", "data.main.people", '"data"."main"."people"', '"people"']
    assert {db.engine.table(name) for name in names} == {db.engine.table("people")}


# USE.


def test_use_decides_where_names_and_the_ledger_are(other: Path) -> None:
    """On a connection of the caller's, USE of a file is as if that file had been opened."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{other}' AS hr")
        connection.execute(f"CREATE TABLE people AS {ROWS} LIMIT 1")
        connection.execute("USE hr")
        db = connect(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        db.train("people", **TINY)
        assert isinstance(db.engine, DuckDBEngine)
        assert db.engine.path == other
    with connect(other) as direct:
        assert direct.budget("people").spent_text == "0.5"
        assert direct.verify() == []


def test_use_of_a_schema_comes_first(other: Path) -> None:
    """A name alone is looked up in the schema of USE before the home schema, and keeps its full name."""
    with duckdb.connect(str(other)) as connection:
        connection.execute(f'CREATE TABLE "my hr".people AS {ROWS}')
        connection.execute('USE other."my hr"')
        info = connect(connection).engine.table("people")
        assert info is not None
        assert info.name == "my hr.people"


# One state, one sentence.


def test_a_run_sees_one_state_of_an_attached_table(db: Database, other: Path) -> None:
    """Rows that are added while a workspace is open are not in it."""
    info = db.engine.table("hr.people")
    assert info is not None
    query = parse_one("SELECT COUNT(*) AS n FROM hr.main.people", dialect="duckdb")
    with db.engine.workspace([info]) as workspace:
        with db.engine.transaction() as transaction:
            transaction.run("INSERT INTO hr.main.people SELECT * FROM hr.main.newcomers")
        counts = [workspace.aggregate(query.copy(), {})["n"].tolist() for _ in range(2)]
    assert counts == [[20], [20]]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "ducklake", "mysql"])
def test_a_database_of_another_kind_is_refused_by_name(kind: str) -> None:
    """Neither budget nor free look: its reading can fail on a cell, or no state of it can be held."""
    catalog = Catalog("far", kind, read_only=True, path="x", own=False)
    reason, remedy = why_unfit(catalog, is_view=False, known=True)
    assert reason
    assert remedy


def test_a_connection_reaches_what_was_attached_and_nothing_else(db: Database, tmp_path: Path) -> None:
    """Once it is open, no further file can be attached."""
    with pytest.raises(DpsqlError), db.engine.transaction() as transaction:
        transaction.run(f"ATTACH '{tmp_path / 'more.duckdb'}' AS more")
    assert not (tmp_path / "more.duckdb").exists()


@pytest.mark.parametrize(
    "text", ["none.duckdb", "dpsql={other}", "data={other}", "postgresql://ann:pw@h/d", "x=mysql://h/d"]
)
def test_what_cannot_be_attached_is_refused(tmp_path: Path, other: Path, text: str) -> None:
    """A missing file, a taken name or a server: nothing is opened, and no password is shown."""
    with pytest.raises((DatabaseError, UsageError)) as caught:
        connect(tmp_path / "data.duckdb", create=True, attach=[text.format(other=other)])
    assert "pw" not in str(caught.value)
    duckdb.connect(str(other)).close()  # nobody holds it


def test_a_password_in_an_attached_url_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by the error nor by the next step, which repeats the options of the command."""
    connect(tmp_path / "data.duckdb", create=True).close()
    for url in ("mysql://ann:pa55word@host/x", "postgresql://ann:pa55word@host/x"):
        assert (
            run_command_line(["train", "--db", str(tmp_path / "data.duckdb"), "--attach", f"hr={url}", "--table", "t"])
            == 2
        )
        captured = capsys.readouterr()
        assert "pa55word" not in captured.out + captured.err


@pytest.mark.parametrize("extension", ["sqlite", "ducklake"])
def test_a_real_database_of_another_kind_is_refused(tmp_path: Path, extension: str) -> None:
    """Where DuckDB has the extension: its table is named, and has neither budget nor free look."""
    with duckdb.connect() as connection:
        try:
            connection.execute(f"LOAD {extension}")
        except duckdb.Error:
            pytest.skip(f"{extension}: DuckDB has no such extension here")
        place = f"ducklake:{tmp_path / 'lake'}" if extension == "ducklake" else str(tmp_path / "file")
        options = "" if extension == "ducklake" else "(TYPE sqlite)"
        connection.execute(f"ATTACH '{place}' AS far {options}")
        connection.execute(f"CREATE TABLE far.people AS {ROWS}")
        db = connect(connection, who="ann")
        assert db.engine.tables() == ["far.people"]
        with pytest.raises(SchemaError):
            db.register("far.people", SCHEMA, cap=1)
        assert_no_free_look(db, "far.people")


# A ledger elsewhere.


def test_a_file_that_cannot_be_written_is_trained_on_beside_its_ledger(tmp_path: Path, other: Path) -> None:
    """Ledger and models are in the ledger's file, the rows' file stays as it was, byte by byte."""
    other.chmod(0o444)
    before = other.read_bytes()
    ledger = tmp_path / "ledger.duckdb"
    with connect(other, ledger=ledger, who="ann") as db:
        assert db.engine.tables() == ["my hr.t.u", "newcomers", "people"]
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", **TINY)
        assert len(model.predict("newcomers")) == 20
    assert other.read_bytes() == before
    with connect(other, ledger=ledger) as db:
        assert db.budget("people").spent_text == "0.5"
        assert list(db.models()["name"]) == [model.name]
        assert db.verify() == []
        assert_one_budget(db, "main.people")


def test_a_file_that_can_be_written_is_marked_for_other_ledgers(tmp_path: Path, other: Path) -> None:
    """A second ledger for the same rows is noticed, and so is the file opened directly."""
    with connect(other, ledger=tmp_path / "one.duckdb") as db:
        db.register("people", SCHEMA, cap=1)
    with connect(other, ledger=tmp_path / "two.duckdb") as db, pytest.raises(UsageError, match="another ledger"):
        db.register("people", SCHEMA, cap=1)
    with connect(other) as db, pytest.raises(UsageError, match="another ledger"):
        db.register("people", SCHEMA, cap=1)


def test_a_database_with_a_ledger_gets_no_second_one(tmp_path: Path, other: Path) -> None:
    """Where its own ledger is, another is refused, and no file is left behind."""
    with connect(other) as db:
        db.register("people", SCHEMA, cap=1)
    with pytest.raises(ParameterError, match="a ledger of its own"):
        connect(other, ledger=tmp_path / "ledger.duckdb")
    assert not (tmp_path / "ledger.duckdb").exists()
