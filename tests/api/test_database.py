"""The front door: what the methods of a database return, and what is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import Database, connect, login
from dpsql.errors import DatabaseError, NotRegistered, ParameterError, UnknownName
from tests.tables import SCHEMA, SMALL, fill, memory, on_disk, some_rows, stored


def test_a_file_is_opened_again_with_all_it_holds(tmp_path: Path) -> None:
    """Registration, budget, ledger and models are in the file."""
    path = tmp_path / "data.duckdb"
    with on_disk(path, some_rows(), cap=3) as opened:
        model = opened.train("people", name="one", **SMALL)
    with connect(path) as again:
        assert again.model("one").to_json() == model.to_json()
        assert (again.budget("people").spent, again.verify()) == (10**9, [])
        assert again.ledger()["event"].tolist() == ["register", "reserve", "reserve"]


def test_a_connection_of_your_own_works_and_stays_open() -> None:
    """`connect` takes an open DuckDB connection, says what it leaves open, and does not close it."""
    with duckdb.connect() as connection:
        with connect(connection, who="ann") as opened:
            fill(opened.engine, "people", some_rows())
            opened.register("people", SCHEMA, cap=1)
            opened.train("people", **SMALL)
            assert any("enable_external_access" in weakness for weakness in opened.weaknesses())
        assert connection.execute("SELECT count(*) FROM dpsql.model").fetchone() == (1,)


def test_a_connection_that_dpsql_opens_has_no_weakness() -> None:
    """A hardened connection leaves nothing open."""
    with memory() as opened:
        assert opened.weaknesses() == []


@pytest.mark.parametrize("target", [None, 3, b"x", "a\x00b", ["x"]], ids=ascii)
def test_what_is_no_database_is_refused(target: object) -> None:
    """Only a path or a DuckDB connection can be opened."""
    with pytest.raises(ParameterError) as caught:
        connect(target)  # type: ignore[arg-type]
    assert caught.value.name == "db"


def test_a_missing_file_is_refused_unless_asked_for(tmp_path: Path) -> None:
    """A typing mistake does not make a new database."""
    with pytest.raises(DatabaseError) as caught:
        connect(tmp_path / "nowhere.duckdb")
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_is_a_frame_of_public_facts() -> None:
    """One row for each entry, oldest first, with who, what and how much."""
    with memory(some_rows(), cap=3) as opened:
        opened.train("people", epsilon="0.5", **SMALL)
        ledger = opened.ledger("people")
    assert ledger["event"].tolist() == ["register", "reserve", "reserve"]
    assert ledger["state"].tolist() == ["", "released", "released"]
    assert ledger["epsilon"].tolist() == ["", "0.015", "0.485"]  # the size first, then the rest
    assert ledger["who"].tolist() == ["ann", "ann", "ann"]


def test_the_owner_may_change_a_cap() -> None:
    """A new cap is an entry, and what is spent stays."""
    with memory(some_rows(), cap=3) as opened:
        opened.train("people", **SMALL)
        budget = opened.set_cap("people", "1.5")
        assert (budget.cap_text, budget.spent_text, budget.left_text) == ("1.5", "1", "0.5")
        assert opened.ledger()["event"].tolist() == ["register", "reserve", "reserve", "cap"]


def test_budgets_lists_every_registered_table() -> None:
    """Each registered table has one budget."""
    with memory(cap=3) as opened:
        fill(opened.engine, "others", [])
        opened.register("others", SCHEMA, cap=1)
        assert [(budget.table, budget.cap_text) for budget in opened.budgets()] == [("people", "3"), ("others", "1")]


@pytest.mark.parametrize("act", ["plan", "train", "explain", "budget", "ledger", "set_cap"])
def test_an_unknown_table_is_refused_everywhere(act: str) -> None:
    """A misspelled table offers the nearest; nothing changes."""
    with memory() as opened:
        before = stored(opened)
        with pytest.raises(UnknownName) as caught:
            getattr(opened, act)("peple", *([1] if act == "set_cap" else []))
        assert caught.value.nearest == ["people"]
        assert stored(opened) == before


@pytest.mark.parametrize("act", ["plan", "train", "explain", "budget"])
def test_an_unregistered_table_has_no_budget(act: str) -> None:
    """A table that nobody registered is refused with exit code 3."""
    with memory() as opened:
        fill(opened.engine, "copy of people", some_rows())
        with pytest.raises(NotRegistered) as caught:
            getattr(opened, act)("copy of people")
        assert caught.value.exit_code == 3


def test_who_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """DPSQL_WHO names the analyst when no name is given."""
    monkeypatch.setenv("DPSQL_WHO", "eve")
    assert login() == "eve"
    with connect(":memory:") as opened:
        assert isinstance(opened, Database)
        assert opened.who == "eve"


def test_the_owner_may_leave_a_schema_in_the_order_of_choice() -> None:
    """What `train` uses is the schema that `register` returned, features in the owner's order."""
    from dpsql.schema import Schema

    backwards = Schema(SCHEMA.label, SCHEMA.classes, SCHEMA.features[::-1])
    with memory(some_rows(), schema=backwards) as opened:
        assert opened.train("people", **SMALL).schema == backwards


def test_an_added_model_may_get_another_name() -> None:
    """`add(model, name=…)` stores a Model under that name, as it does for a file."""
    with memory(some_rows()) as opened:
        model = opened.train("people", name="one", **SMALL)
        assert opened.add(model, name="two").name == "two"
