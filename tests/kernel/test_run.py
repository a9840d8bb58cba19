"""A run: charge first, ask after; what is released and its entry commit together; failures keep the charge."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.api.database import Database
from dpsql.engines.base import Transaction
from dpsql.errors import BudgetExceeded, DpsqlError, Interrupted, NotPrivate, ParameterError, QueryFailed, TableChanged
from dpsql.kernel.charges_made import name_charges
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.exact import Rows
from dpsql.kernel.operations import LeafLabels, Size
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job, charge_for, run
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.ledger import Entry, Ledger
from dpsql.schema import Unit
from tests.releases import Store, releasing
from tests.tables import on_disk, rows_of, some_rows, stored
from tests.tables import run as run_sql

PLAN = Plan("test", Step("n", Size(), 10**9), Promise(Unit()))
SECRET = "a cell of 4711"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people" registered at cap 5, and a table for what runs store."""
    opened = on_disk(tmp_path / "data.duckdb", some_rows(), cap=5)
    run_sql(opened.engine, "CREATE TABLE kept (released BIGINT)")
    yield opened
    opened.close()


def perform(
    database: Database,
    ask: Callable[[Session], Any] = lambda session: session.size("n"),
    *,
    store: Store | None = None,
    plan: Plan = PLAN,
    request_id: str = "r1",
) -> Entry:
    """Run a plan on "people" and keep what was released in the table "kept"."""

    def keep(transaction: Transaction, released: Any, entry: Entry) -> None:
        transaction.run("INSERT INTO kept VALUES (?)", (released,))

    dataset = find_dataset(database.engine, database.book, "people")
    job = Job.of(dataset, plan, who="ann", request_id=request_id)
    return run(database.engine, database.book, job, releasing(ask, store or keep)).entry


def state(database: Database, request_id: str = "r1") -> str | None:
    """Return the state of a request's entry, read by another ledger object on the same file."""
    entry = Ledger(database.engine).find_request(request_id)
    return entry.state if entry else None


def test_the_charge_is_on_disk_before_the_first_query(database: Database) -> None:
    """When a method gets its session, another cursor already reads the entry, the sum and the receipt."""
    seen: list[Any] = []

    def ask(session: Session) -> int:
        seen.append((state(database), database.budget("people").spent, database.verify()))
        return session.size("n")

    perform(database, ask)
    assert seen == [("reserved", 10**9, [])]


def test_a_release_and_its_entry_are_stored_together(database: Database) -> None:
    """After a run the entry is released, and what came out is in the table."""
    entry = perform(database)
    assert (entry.state, entry.digest, state(database)) == ("released", "d" * 64, "released")
    assert len(rows_of(database.engine, "FROM kept")) == 1


def test_the_entry_holds_the_plan(database: Database) -> None:
    """What the ledger stores is the plan as plain values, with neighbours and unit."""
    entry = perform(database)
    assert entry.plan == PLAN.to_dict()
    assert (entry.amount, entry.neighbours, entry.unit) == (10**9, "add or remove one row", "row")


@pytest.mark.parametrize("kind", [ValueError, KeyError, ZeroDivisionError, RuntimeError, AssertionError, OSError])
def test_a_failure_is_replaced_and_keeps_its_charge(database: Database, kind: type[Exception]) -> None:
    """An error of any kind becomes QueryFailed without its words; the entry is lost, the charge stays."""

    def ask(session: Session) -> int:
        raise kind(SECRET)

    with pytest.raises(QueryFailed) as caught:
        perform(database, ask)
    assert SECRET not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert (state(database), database.budget("people").spent) == ("lost", 10**9)


def test_a_replaced_error_leads_nowhere(database: Database) -> None:
    """Neither context nor cause nor any frame of the traceback leads from the new error to where counts were held."""

    def ask(session: Session) -> int:
        counts = np.array([4711])
        raise ValueError(SECRET, counts)

    with pytest.raises(QueryFailed) as caught:
        perform(database, ask)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "ask" not in [frame.name for frame in caught.traceback]


def test_an_error_of_ours_keeps_its_words_but_not_its_frames(database: Database) -> None:
    """A DpsqlError from inside is raised as it is, without the frames that it came through."""

    def ask(session: Session) -> int:
        counts = np.array([4711])
        return int(counts[0]) + session.size("another step")

    with pytest.raises(AllowanceExceeded, match="another step") as caught:
        perform(database, ask)
    assert "ask" not in [frame.name for frame in caught.traceback]
    assert state(database) == "lost"


def kept(database: Database) -> list[Any]:
    """Return what runs have stored."""
    return rows_of(database.engine, "FROM kept")


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_run_is_lost(database: Database) -> None:
    """Ctrl-C is a KeyboardInterrupt that says what stays charged, and the entry is marked lost."""

    def ask(session: Session) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        perform(database, ask)
    assert (state(database), database.budget("people").spent) == ("lost", 10**9)
    assert isinstance(caught.value, Interrupted)
    (charge,) = caught.value.charges
    assert (charge.state, charge.amount, charge.measure) == ("lost", "1", "epsilon")
    assert str(caught.value) == f"Epsilon 1 stays charged (entry {charge.entry}, lost)."
    assert database.book.entries()[-1].entry_id == charge.entry
    assert database.verify() == []


def test_an_interruption_has_no_frame_of_the_run(database: Database) -> None:
    """Neither its traceback nor its context reaches what was stopped: exact counts can be there."""

    def ask(session: Session) -> int:
        counts = np.array([4711])
        press()
        return int(counts[0])

    with pytest.raises(Interrupted) as caught:
        perform(database, ask)
    assert "ask" not in [frame.name for frame in caught.traceback]
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_a_method_that_passes_over_ctrl_c_gets_no_further(database: Database) -> None:
    """Where Ctrl-C came while rows were read, the session answers nothing more, and the run has no result."""

    def ask(session: Session) -> int:
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(Rows, "size", lambda *_: press())
            session.size("n")
        return 4711

    with pytest.raises(DpsqlError, match="failed after it was charged"):
        perform(database, ask)
    assert (state(database), kept(database)) == ("lost", [])


@pytest.mark.parametrize("act", ["reserve_all", "release", "mark_lost"])
@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_never_cuts_what_the_ledger_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch, act: str, times: int
) -> None:
    """Pressed while it writes, even in its transaction, the entry has the end that was under way, and is named."""
    written = getattr(Ledger, act)

    def write(*given: Any) -> Any:
        for _ in range(times):
            press()
        return written(*given)

    def ask(session: Session) -> int:
        if act == "mark_lost":
            press()
        return session.size("n")

    monkeypatch.setattr(Ledger, act, write)
    with pytest.raises(Interrupted) as caught:
        perform(database, ask)
    expected = "released" if act == "release" else "lost"
    assert [charge.state for charge in caught.value.charges] == [expected]
    assert (state(database), database.verify()) == (expected, [])
    assert len(kept(database)) == (act == "release")


def test_an_entry_that_cannot_be_marked_stays_reserved(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the ledger is out of reach by then, the entry is found as unfinished, and said to be."""

    def fail(*_: object) -> None:
        raise DpsqlError("no room.")

    def ask(session: Session) -> int:
        monkeypatch.setattr(Ledger, "mark_lost", fail)
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="Epsilon 1 stays charged .*, reserved"):
        perform(database, ask)
    assert (state(database), database.budget("people").standing.reserved) == ("reserved", 1)


def test_what_a_repeated_request_charged_is_not_named(database: Database) -> None:
    """A request that was made before charges nothing, and Ctrl-C says so."""
    perform(database)
    with pytest.raises(Interrupted, match="Nothing was charged"):
        name_charges(lambda: (perform(database), press()))


def test_a_failed_store_leaves_nothing_but_the_charge(database: Database) -> None:
    """When storing fails halfway, what it wrote is undone and the entry is lost."""

    def store(transaction: Transaction, released: Any, entry: Entry) -> None:
        transaction.run("INSERT INTO kept VALUES (?)", (released,))
        raise ValueError(SECRET)

    with pytest.raises(QueryFailed):
        perform(database, store=store)
    assert rows_of(database.engine, "FROM kept") == []
    assert (state(database), database.verify()) == ("lost", [])


def test_a_run_returns_what_it_stored(database: Database) -> None:
    """The value comes back beside its entry; a repeated request comes back without one."""
    job = Job.of(find_dataset(database.engine, database.book, "people"), PLAN, who="ann", request_id="r1")
    first = run(database.engine, database.book, job, releasing(lambda session: session.size("n")))
    again = run(database.engine, database.book, job, releasing(lambda session: pytest.fail("asked again")))
    assert isinstance(first.value, int)
    assert (first.entry.state, again.value, again.entry.entry_id) == ("released", None, first.entry.entry_id)


class Shifting(Job):
    """A job that names one batch to the ledger and another one to whoever asks next."""

    @property
    def batch(self) -> str | None:  # type: ignore[override]
        """The next of two batches."""
        asked = self.__dict__.setdefault("asked", [])
        asked.append(None)
        return "one" if len(asked) == 1 else "other"


def test_a_job_is_read_once(database: Database) -> None:
    """What is charged and what is read come from one look at the job."""
    run_sql(database.engine, "ALTER TABLE people ADD COLUMN era VARCHAR DEFAULT 'one'")
    dataset = find_dataset(database.engine, database.book, "people")
    schema = replace(dataset.schema, batch="era")
    database.register("people", schema, cap=5, replace=True)
    dataset = find_dataset(database.engine, database.book, "people")
    charge = charge_for(dataset, PLAN, who="ann", request_id="r1", batch="one")
    job = object.__new__(Shifting)
    job.__dict__.update(dataset=dataset, plan=PLAN, charge=charge, other=None)
    released = run(database.engine, database.book, job, releasing(lambda session: session._rows._source.where))
    assert released.entry.scope == "era=one"
    assert "'one'" in str(released.value)
    assert "other" not in str(released.value)


def test_a_repeated_request_asks_nothing_and_charges_nothing(database: Database) -> None:
    """The same request id with the same content gets the stored entry; no session is opened."""
    first = perform(database)
    before = stored(database)
    again = perform(database, lambda session: pytest.fail("asked again"))
    assert (again.entry_id, again.state, again.fresh) == (first.entry_id, "released", False)
    assert stored(database) == before


def test_a_lost_request_is_not_run_again(database: Database) -> None:
    """A request whose run failed stays lost under its id: one charge, at most one release."""
    with pytest.raises(DpsqlError):
        perform(database, lambda session: session.size("another step"))
    again = perform(database, lambda session: pytest.fail("asked again"))
    assert again.state == "lost"


def test_other_content_under_a_used_request_id_is_refused(database: Database) -> None:
    """A request id stands for one plan; another plan under it changes nothing."""
    perform(database)
    before = stored(database)
    with pytest.raises(ParameterError):
        perform(database, plan=Plan("test", Step("n", Size(), 2 * 10**9), Promise(Unit())))
    assert stored(database) == before


def test_a_refused_charge_asks_nothing(database: Database) -> None:
    """A plan beyond the cap is refused before a session exists, and leaves no trace."""
    before = stored(database)
    with pytest.raises(BudgetExceeded):
        perform(
            database,
            lambda session: pytest.fail("asked"),
            plan=Plan("test", Step("n", Size(), 6 * 10**9), Promise(Unit())),
        )
    assert stored(database) == before


def test_an_unproven_plan_is_refused_under_a_cap(database: Database) -> None:
    """A published step on a dataset with a cap is refused with exit code 3, and leaves no trace."""
    before = stored(database)
    plan = Plan("test", Step("n", LeafLabels(), 10**9, published=True), Promise(Unit()))
    with pytest.raises(NotPrivate) as caught:
        perform(database, lambda session: pytest.fail("asked"), plan=plan)
    assert caught.value.exit_code == 3
    assert stored(database) == before


def test_a_table_gone_in_the_meantime_charges_nothing(database: Database) -> None:
    """When the table is dropped after the plan was made, the run is refused before the charge."""
    dataset = find_dataset(database.engine, database.book, "people")
    job = Job.of(dataset, PLAN, who="ann", request_id="r1")
    run_sql(database.engine, "DROP TABLE people")
    with pytest.raises(DpsqlError):
        run(database.engine, database.book, job, releasing(lambda session: session.size("n")))
    assert state(database) is None


def test_a_charge_planned_before_a_new_registration_is_refused(database: Database) -> None:
    """Between plan and charge the owner may give batches another meaning: the charge would be booked on other rows."""
    dataset = find_dataset(database.engine, database.book, "people")
    job = Job.of(dataset, PLAN, who="ann", request_id="r1")
    database.register("people", dataset.schema, cap=5, replace=True)
    with pytest.raises(TableChanged):
        run(database.engine, database.book, job, releasing(lambda session: session.size("n")))
    assert state(database) is None
