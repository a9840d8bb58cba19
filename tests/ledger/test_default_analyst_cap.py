"""A cap for every analyst who has none of their own: it binds, it can be seen, and the chain bears it out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, ParameterError, UsageError
from dpsql.ledger import formats
from dpsql.ledger.budget import ANY_ANALYST
from tests.servers import OPEN_EMPTY
from tests.tables import SCHEMA, fill, memory, on_disk, rows_of, run

SMALL = {"method": "rdt", "trees": 1, "depth": 1}


@pytest.fixture(params=["duckdb", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database of each kind that can hold a ledger, with the table "people" and a cap of 5."""
    opened = Database(OPEN_EMPTY[request.param](), who="ann")
    if request.param == "duckdb":
        fill(opened.engine, "people", [(1, 1.0, "a", "no")])
    else:
        run(opened.engine, "CREATE TABLE public.people (person BIGINT, x DOUBLE PRECISION, c TEXT, y TEXT)")
    opened.register("people", SCHEMA, cap=5)
    yield opened
    opened.close()


def as_analyst(database: Database, name: str) -> Database:
    """Return the same database under another name."""
    return Database(database.engine, who=name)


def test_it_binds_each_analyst_without_a_cap(database: Database) -> None:
    """Two strangers may spend it once each; one with a cap of their own has that one, larger or smaller."""
    database.set_cap("people", "0.5", default_analyst=True)
    database.set_cap("people", "1", analyst="eve")
    for name in ("bob", "cleo"):
        as_analyst(database, name).train("people", epsilon="0.4", **SMALL)
        with pytest.raises(BudgetExceeded, match=f'analyst "{name}" on table "people" has 0.1 of 0.5 left'):
            as_analyst(database, name).train("people", epsilon="0.2", **SMALL)
    as_analyst(database, "eve").train("people", epsilon="0.9", **SMALL)
    assert database.budget("people").spent_text == "1.7"
    assert database.verify() == []


def test_lifting_it_lets_everybody_go_on(database: Database) -> None:
    """None lifts it; an analyst whose own cap is lifted falls back to it before."""
    database.set_cap("people", "0.5", default_analyst=True)
    database.set_cap("people", "1", analyst="eve")
    database.set_cap("people", None, analyst="eve")
    with pytest.raises(BudgetExceeded, match="0.5 of 0.5 left"):
        as_analyst(database, "eve").train("people", epsilon="0.6", **SMALL)
    database.set_cap("people", None, default_analyst=True)
    as_analyst(database, "eve").train("people", epsilon="0.6", **SMALL)
    assert database.verify() == []


def test_what_is_left_of_an_analyst_without_a_cap_is_the_tables() -> None:
    """Of an analyst the least of all caps is left: the table's, their own, or that of all others."""
    with memory([(1, 1.0, "a", "no")], cap=3) as database:
        database.train("people", epsilon=1, **SMALL)
        assert database.budget("people").left_for("ann") == database.budget("people").left_for("new") == 2 * 10**9
        database.set_cap("people", "0.5", default_analyst=True)
        budget = database.budget("people")
        assert (budget.left_for("ann"), budget.left_for("new"), budget.default_analyst_cap) == (0, 5 * 10**8, 5 * 10**8)


def test_nobody_can_take_its_name() -> None:
    """The name under which it is kept is no analyst's, and it is not given together with one."""
    with memory([], cap=3) as database:
        with pytest.raises(ParameterError, match="analyst must be the name of one analyst"):
            database.set_cap("people", 1, analyst=ANY_ANALYST)
        with pytest.raises(UsageError, match="not both"):
            database.set_cap("people", 1, analyst="eve", default_analyst=True)
        assert [entry.event for entry in database.book.entries()] == ["register"]


def test_a_raised_row_is_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Who raises it in the budget's table is found by verify: its event says otherwise."""
    path = tmp_path_factory.mktemp("cap") / "data.duckdb"
    with on_disk(path, [(1, 1.0, "a", "no")], cap=3) as database:
        database.set_cap("people", "0.5", default_analyst=True)
        run(database.engine, "UPDATE dpsql.analyst_budget SET cap = 3000000000 WHERE analyst = '*'")
        assert any("analyst_budget" in sentence for sentence in database.verify())


def test_a_ledger_of_format_2_is_upgraded_by_a_write(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is read as it is; the first write numbers it 3, once, and the chain says so."""
    path = tmp_path_factory.mktemp("old") / "data.duckdb"
    with on_disk(path, [(1, 1.0, "a", "no")], cap=3) as database:
        run(database.engine, "UPDATE dpsql.format SET number = 2 WHERE part = 'ledger'")
    with connect(path, who="ann") as database:
        assert (database.budget("people").cap_text, database.verify()) == ("3", [])
        assert rows_of(database.engine, "SELECT number FROM dpsql.format WHERE part = 'ledger'") == [{"number": 2}]
        database.register("people", SCHEMA, cap=3, replace=True, holdout="10%")
        database.set_cap("people", 1, default_analyst=True)
        assert [dict(entry.details) for entry in database.book.entries(event="upgrade")] == [{"from": 2, "to": 3}]
        assert database.verify() == []
        assert formats.LEDGER == 3
