"""A call inside the server ends when it is told to, and costs no more than it is allowed to (issue 15, finding 12)."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

import pytest

from dpsql.api import census, plpython_worker
from dpsql.errors import BudgetExceeded, ParameterError
from dpsql.methods.mrf.mrf import Mrf
from dpsql.schema import Schema
from tests.attacks.analyst import Server, prepared, wait_for
from tests.tables import memory

psycopg = pytest.importorskip("psycopg")
#: A search for a strategy that goes on for many seconds: long sums of numpy's, which hold Python.
LONG = {"trees": 4000, "ensembles": 60, "strategy": "pidentity"}
SEARCHING = f"SELECT * FROM dpsql.train('private.people', '0.1', 'mrf', '{json.dumps(LONG)}')"
READING = "SELECT * FROM dpsql.train('private.people', '0.1', 'rdt', '{\"trees\": 2, \"depth\": 2}')"
#: A call must end within a second; the rest is for machines that are busy with other tests.
SOON = 4.0


@pytest.fixture(scope="module")
def server() -> Server:
    """Prepare a database once."""
    return prepared()


class Call:
    """A statement that ann runs in a session of her own, in the background."""

    def __init__(self, server: Server, statement: str) -> None:
        self.error: psycopg.Error | None = None
        self._connection = psycopg.connect(server.as_role("ann"), autocommit=True)
        self.pid = self._connection.info.backend_pid
        self._thread = threading.Thread(target=self._run, args=(statement,), daemon=True)
        self._thread.start()

    def _run(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except psycopg.Error as error:
            self.error = error

    def end(self) -> float:
        """Return how many seconds it takes to end."""
        started = time.monotonic()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._connection.close()
        return time.monotonic() - started


def working(server: Server) -> bool:
    """Whether the kernel is connected to the database."""
    return bool(server.run(WORKERS.format(server.name)))


WORKERS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'dpsql' AND datname = '{}'"


@contextlib.contextmanager
def shut(server: Server) -> Iterator[None]:
    """Hold the private table so that nobody can read it: the kernel waits for it, after its charge."""
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("way", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_search_for_a_plan_can_be_stopped(server: Server, way: str) -> None:
    """A cancel or an end comes through at once, and nothing goes on behind it."""
    before = server.spent()
    call = Call(server, SEARCHING)
    assert wait_for(lambda: working(server))
    server.run(f"SELECT {way}({call.pid})")
    assert call.end() < SOON
    assert call.error is not None
    assert wait_for(lambda: not working(server))
    assert server.spent() == before


def test_a_time_out_of_the_callers_holds(server: Server) -> None:
    """statement_timeout ends the call though the work is done elsewhere."""
    started = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        server.run("SET statement_timeout = '2s'", SEARCHING, role="ann")
    assert time.monotonic() - started < 2 + SOON
    assert wait_for(lambda: not working(server))


@pytest.mark.parametrize("way", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_run_that_is_stopped_stays_charged_and_is_marked_lost(server: Server, way: str) -> None:
    """Stopped between its charge and its answer, a run is charged once, and the ledger says that it was lost."""
    before, last = server.spent(), "SELECT state FROM dpsql.ledger ORDER BY entry_id DESC LIMIT 1"
    with shut(server):
        call = Call(server, READING)
        assert wait_for(lambda: server.run(last) == [("reserved",)])
        server.run(f"SELECT {way}({call.pid})")
        assert call.end() < SOON
    assert wait_for(lambda: server.run(last) == [("lost",)])
    assert server.spent() == before + 100_000_000
    assert wait_for(lambda: not working(server))


@pytest.mark.parametrize("call", [READING, "SELECT * FROM dpsql.train('private.people', '-1')"])
def test_no_lock_of_the_callers_stays(server: Server, call: str) -> None:
    """After a call, or one that was refused, its session holds no advisory lock."""
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        with contextlib.suppress(psycopg.Error):
            connection.execute(call)
        held = connection.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
        assert held.fetchall() == []


def test_what_cannot_be_paid_is_refused_before_it_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a method whose plan takes long, none is made when the budget is too small."""

    def plan(*_: object) -> None:
        pytest.fail("a plan was searched for")

    with memory([(1, 2.0, "a", "no")], cap=1) as db:
        monkeypatch.setattr(Mrf, "plan", plan)
        with pytest.raises(BudgetExceeded, match='needs epsilon 2, but table "people" has 1 of 1 left'):
            db.train("people", epsilon=2, method="mrf")


def test_a_plan_inside_the_server_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that takes longer than the server allows is given up, with the next step, before any charge."""
    monkeypatch.setattr(plpython_worker, "PLANNING", 0.2)
    with pytest.raises(ParameterError, match="a plan is found within"), plpython_worker._limit_planning():
        Mrf().plan(Schema.from_dict(census.SCHEMA), 10**9, LONG | {"effort": 1000})


@pytest.mark.parametrize(("given", "bounded"), [({}, 15), ({"effort": 3600}, 15), ({"effort": 2}, 2)])
def test_a_search_inside_the_server_takes_less_effort(given: dict[str, int], bounded: int) -> None:
    """However much effort an analyst allows a search, the server allows it a few seconds' worth."""
    assert plpython_worker._limit_search("mrf", given)["effort"] == bounded
