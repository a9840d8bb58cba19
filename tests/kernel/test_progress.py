"""What a run says of its progress: the steps of its plan and the time, never anything of rows; whose errors end it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.errors import Interrupted
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.operations import Later, Size
from dpsql.kernel.plan import Composition, Plan, Sequential, Step
from dpsql.kernel.progress import Progress, watch_progress
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job, run
from dpsql.kernel.session import Session
from dpsql.schema import Unit
from tests.releases import releasing
from tests.tables import SCHEMA, memory, on_disk, some_rows

FIRST = Step("first", Size(), 10**8, scans=1)
SECOND = Step("second", Size(), 10**8, scans=3)
BOTH = Sequential((FIRST, SECOND))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people" registered at cap 5."""
    opened = on_disk(tmp_path / "data.duckdb", some_rows(), cap=5)
    yield opened
    opened.close()


def perform(database: Database, ask: Callable[[Session], Any], composition: Composition = BOTH) -> None:
    """Run a plan on "people"."""
    dataset = find_dataset(database.engine, database.book, "people")
    plan = Plan("test", composition, Promise(Unit()))
    job = Job.of(dataset, plan, who="ann", request_id="r1")
    run(database.engine, database.book, job, releasing(ask))


def ask_both(session: Session) -> int:
    """Ask both steps."""
    return session.size("first") + session.size("second")


def state(database: Database) -> str | None:
    """Return how the entry of the run ended; None where nothing was charged."""
    entry = database.book.find_request("r1")
    return entry.state if entry else None


def test_each_step_of_the_plan_is_told(database: Database) -> None:
    """What is planned, before the charge; each step as it begins, with the share of scans that lie behind; the end."""
    events: list[Progress] = []
    states: list[str | None] = []

    def tell(progress: Progress) -> None:
        events.append(progress)
        states.append(state(database))

    with watch_progress(tell):
        perform(database, ask_both)
    steps = [(event.step, event.steps, event.name, event.share) for event in events]
    assert steps == [(0, 2, "", 0), (1, 2, "first", 0), (2, 2, "second", 0.25), (2, 2, "second", 1)]
    assert states == [None, "reserved", "reserved", "released"]
    assert {event.method for event in events} == {"test"}
    seconds = [event.seconds for event in events]
    assert seconds == sorted(seconds)
    perform(database, ask_both)  # the same request: it returns, and nobody is told any more
    assert len(events) == 4


def test_steps_that_are_planned_later_are_counted_then(database: Database) -> None:
    """Their allowance is one step until they are known."""
    events: list[Progress] = []

    def ask(session: Session) -> int:
        number = session.size("first")
        session.later("rest", Sequential((SECOND, replace(SECOND, name="third"))))
        return number + session.size("second") + session.size("third")

    with watch_progress(events.append):
        perform(database, ask, Sequential((FIRST, Step("rest", Later(), 2 * 10**8))))
    steps = [(event.step, event.steps, event.name) for event in events]
    assert steps == [(0, 2, ""), (1, 2, "first"), (2, 3, "second"), (3, 3, "third"), (3, 3, "third")]


@pytest.mark.filterwarnings("ignore::dpsql.NoRowsWarning")
@pytest.mark.parametrize("method", ["rdt", "rosnam", "spe"])
def test_progress_tells_nothing_of_rows(method: str) -> None:
    """With a declared size the same is told of a table, of an empty one, and of one with a row more, but the time."""
    stories: list[list[Progress]] = []
    for rows in (some_rows(60), [], [*some_rows(60), (7, 3.0, "a", "no")]):
        events: list[Progress] = []
        with memory(rows, schema=replace(SCHEMA, rows=60)) as db, watch_progress(events.append):
            db.train("people", epsilon=1, method=method, trees=2, depth=2)
        stories.append([replace(progress, seconds=0.0) for progress in events])
    assert len(stories[0]) > 2
    assert stories[0] == stories[1] == stories[2]


def test_an_error_of_the_listener_ends_the_run(database: Database) -> None:
    """The charge stays, the entry is lost, and the error comes as it was raised, without a frame of the session."""
    problem = LookupError("mine")

    def tell(progress: Progress) -> None:
        if progress.step == 2:
            raise problem

    with watch_progress(tell), pytest.raises(LookupError) as caught:
        perform(database, ask_both)
    assert caught.value is problem
    assert "ask_both" not in [frame.name for frame in caught.traceback]
    assert "tell" in [frame.name for frame in caught.traceback]
    assert (state(database), database.verify()) == ("lost", [])


def test_no_method_passes_over_an_error_of_the_listener(database: Database) -> None:
    """A method that goes on after it gets no further, and its run is lost."""

    def tell(progress: Progress) -> None:
        if progress.step == 1:
            raise LookupError("mine")

    def ask(session: Session) -> int:
        with contextlib.suppress(LookupError):
            session.size("first")
        return 4711

    with watch_progress(tell), pytest.raises(LookupError, match="mine"):
        perform(database, ask)
    assert state(database) == "lost"


def test_a_listener_that_cannot_be_called_costs_nothing(database: Database) -> None:
    """It is told once before the charge."""
    listener: Any = lambda: None  # noqa: E731
    with watch_progress(listener), pytest.raises(TypeError):
        perform(database, ask_both)
    assert state(database) is None


def test_an_error_at_the_end_leaves_the_release(database: Database) -> None:
    """The last call comes when the result is stored: its error is raised, and the entry stays released."""

    def tell(progress: Progress) -> None:
        if progress.share == 1:
            raise LookupError("mine")

    with watch_progress(tell), pytest.raises(LookupError):
        perform(database, ask_both)
    assert state(database) == "released"


def test_a_listener_can_stop_a_run(database: Database) -> None:
    """A KeyboardInterrupt that it raises is Ctrl-C."""

    def tell(progress: Progress) -> None:
        if progress.step == 2:
            raise KeyboardInterrupt

    with watch_progress(tell), pytest.raises(Interrupted, match="lost"):
        perform(database, ask_both)


def test_the_search_for_a_plan_is_told(database: Database) -> None:
    """A strategy is looked for before there is a plan: kind by kind, with no steps yet."""
    events: list[Progress] = []
    with watch_progress(events.append):
        database.plan("people", method="mrf", trees=2, effort=1)
    assert events
    assert {(event.method, event.step, event.steps) for event in events} == {("", 0, 0)}
    assert str(events[0]) == "looking for a strategy (identity)"
