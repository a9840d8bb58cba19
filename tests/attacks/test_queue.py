"""Writers of the ledger queue, wait for each other's blocks, and lose no charge by it; readers see one state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dpsql.engines.base import Conflict, Engine, Transaction
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import DatabaseLocked, LedgerBroken
from dpsql.ledger import Charge, Ledger
from dpsql.ledger import transaction as ledger_transaction
from tests import servers

NANO = 10**9
LIMITS = {"lost_runs": 10**6}


def opened(name: str, wait: float = 2.0) -> Engine:
    """Open an empty database that keeps a ledger."""
    if name == "duckdb":
        return open_file(":memory:")
    from dpsql.engines.postgres.engine import open_server

    return open_server(servers.fresh_database(), wait=wait)


@pytest.fixture(params=["duckdb", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open an empty database of each engine that keeps a ledger; PostgreSQL waits for a lock 50 ms at a time."""
    engine = opened(request.param, wait=0.05)
    yield engine
    engine.close()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    """Return a ledger with "adult" registered."""
    ledger = Ledger(engine)
    ledger.register("adult", "adult", 10**6 * NANO, LIMITS, "ann")
    return ledger


def charge(request_id: str) -> Charge:
    """Return a charge on "adult"."""
    return Charge(request_id, "adult", "adult", "rdt", {"note": "x" * 200}, NANO, who="eve")


def lengthen(ledger: Ledger, count: int) -> None:
    """Append charges to the ledger, in one block."""
    ledger.reserve_all([charge(f"long{number}") for number in range(count)])


def test_two_writers_meet(ledger: Ledger, engine: Engine) -> None:
    """While one writer has its turn, a second one cannot have it: it conflicts or waits, and never goes on."""
    with engine.transaction() as first:
        ledger_transaction.queue(first)
        with pytest.raises((Conflict, DatabaseLocked)), engine.transaction() as second:
            ledger_transaction.queue(second)


def test_a_writer_that_began_before_another_ended_does_not_write_on_an_old_state() -> None:
    """In DuckDB a transaction that began earlier sees the older chain; taking its turn then must fail."""
    engine = open_file(":memory:")
    Ledger(engine).register("adult", "adult", NANO, {}, "ann")

    def write_late() -> None:
        with engine.transaction() as late:
            late.rows("SELECT count(*) FROM dpsql.entry")
            with engine.transaction() as early:
                ledger_transaction.queue(early)
            ledger_transaction.queue(late)

    with pytest.raises(Conflict):
        write_late()
    engine.close()


def test_a_writer_waits_as_long_as_anothers_block_takes(ledger: Ledger, engine: Engine) -> None:
    """A block that stays open far past 50 tries and past the server's time for locks delays others, and loses none."""
    entered, go_on = threading.Event(), threading.Event()
    other = Ledger(engine)

    def hold() -> None:
        with other.transaction() as into:
            into.append(ledger_transaction.Event(0, "limit", 0, dataset="adult", table_name="adult", who="ann"))
            entered.set()
            go_on.wait(60)

    def ask() -> Any:
        entered.wait(60)
        threading.Timer(4.0, go_on.set).start()
        return ledger.reserve(charge("waits"))

    with ThreadPoolExecutor(2) as pool:
        holding, asking = pool.submit(hold), pool.submit(ask)
        holding.result(120)
        assert asking.result(120).fresh
    assert ledger.verify() == []


def test_nothing_that_moves_is_waited_for_without_end(ledger: Ledger, engine: Engine) -> None:
    """Where a session holds the ledger and never ends, a writer says so after its patience, and charges nothing."""
    ledger.patience = 0.2
    with engine.transaction() as stuck:
        ledger_transaction.queue(stuck)
        with pytest.raises(DatabaseLocked, match="nothing has moved"):
            ledger.reserve(charge("never"))
    assert ledger.find_request("never") is None


def test_four_runs_at_once_on_a_long_ledger_all_end(ledger: Ledger, engine: Engine) -> None:
    """Each of four writers, with a memory of its own, is charged and released; nothing is lost on the way."""
    lengthen(ledger, 1500)

    def attempt(number: int) -> str:
        mine = Ledger(engine)
        entry = mine.reserve(charge(f"r{number}"))
        return mine.write(lambda into: mine.release(entry, "0" * 64, into)).state

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(attempt, range(4))) == ["released"] * 4
    assert ledger.verify() == []


def test_a_block_on_a_known_chain_reads_what_is_new_alone(ledger: Ledger, engine: Engine) -> None:
    """A long ledger does not make every block long: events that were checked are not read again."""
    lengthen(ledger, 300)
    known = ledger._memory.state
    assert known is not None
    other = Ledger(engine)
    other.reserve(charge("another's"))
    with engine.snapshot() as transaction:
        watched = Counting(transaction)
        state = ledger_transaction.check_since(watched, known)
        assert state is not None
        assert state.head.sequence == known.head.sequence + 1
        assert watched.most == 1
        assert state.replayed == ledger_transaction.check_all(transaction).replayed


class Counting:
    """A transaction that remembers the longest result it gave."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rows(self, *asked: Any) -> list[dict[str, Any]]:
        """Return rows and remember how many."""
        found = self._inner.rows(*asked)
        self.most = max(self.most, len(found))
        return found


TAMPERED = {
    "the last event": "UPDATE dpsql.entry SET hash = 'x' WHERE sequence = (SELECT max(sequence) FROM dpsql.entry)",
    "a missing event": "DELETE FROM dpsql.entry WHERE sequence = 2",
    "a missing end": "DELETE FROM dpsql.entry WHERE sequence > 2",
    "a budget": "UPDATE dpsql.budget SET whole = 0, spent = 0",
    "another's event": "UPDATE dpsql.entry SET amount = 1 WHERE request_id = 'another'",
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_process_that_knows_the_chain_still_sees_tampering(ledger: Ledger, engine: Engine, what: str) -> None:
    """The memory of a sound chain is no cover: events gone, sums changed, or events behind it that do not hold."""
    lengthen(ledger, 3)
    Ledger(engine).reserve(charge("another"))
    with engine.transaction() as transaction:
        transaction.run(TAMPERED[what])
    with pytest.raises(LedgerBroken):
        ledger.reserve(charge("next"))
    assert ledger.verify() != []


def test_verify_sees_one_state_while_others_write(engine: Engine) -> None:
    """A sound ledger is said to be sound while four writers are at work."""
    Ledger(engine).register("adult", "adult", 10**6 * NANO, LIMITS, "ann")
    done = threading.Event()

    def write(name: str) -> None:
        mine, number = Ledger(engine), 0
        while not done.is_set():
            number += 1
            mine.reserve(charge(f"{name}-{number}"))

    reader = Ledger(engine)
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, name) for name in ("a", "b", "c")]
        try:
            found = [finding for _ in range(60) for finding in reader.verify()]
        finally:
            done.set()
        for one in writing:
            one.result(120)
    assert found == []


def test_a_look_sees_one_state(ledger: Ledger, engine: Engine) -> None:
    """Between two statements of a snapshot another writer's charge does not appear."""
    with engine.snapshot() as transaction:
        before = transaction.rows("SELECT count(*) AS n FROM dpsql.entry")
        Ledger(engine).reserve(charge("meanwhile"))
        assert transaction.rows("SELECT count(*) AS n FROM dpsql.entry") == before
