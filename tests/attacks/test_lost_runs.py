"""A failure is a release: failed runs are counted, then wait for the owner, and every run has a least charge."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line as run_command
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import ChargeTooSmall, DpsqlError, NotRegistered, ParameterError, QueryFailed, RunsUnfinished
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.run import Job, run
from dpsql.kernel.session import Session
from dpsql.ledger import Charge, Ledger
from tests import servers
from tests.releases import releasing
from tests.tables import SMALL, fill, memory, on_disk, rows_of, some_rows, stored

NANO = 10**9


@pytest.fixture(params=["duckdb", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open an empty database that keeps a ledger, of each engine that can."""
    if request.param == "duckdb":
        opened: Engine = open_file(":memory:")
    else:
        from dpsql.engines.postgres.engine import open_server

        opened = open_server(servers.fresh_database())
    yield opened
    opened.close()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    """Return a ledger with "adult" registered at cap 100 and the usual limits."""
    ledger = Ledger(engine)
    ledger.register("adult", "adult", 100 * NANO, {}, "ann")
    return ledger


def charge(request_id: str, nano: int = NANO, **changes: Any) -> Charge:
    """Return a charge on "adult"."""
    return Charge(request_id, "adult", "adult", "rdt", {}, nano, who="eve", **changes)


def lose(ledger: Ledger, count: int) -> None:
    """Charge some runs that fail."""
    for number in range(count):
        ledger.mark_lost(ledger.reserve(charge(f"lost{number}")), "failed")


def fail(db: Database) -> None:
    """Charge a run on "people" whose method fails."""

    def ask(session: Session) -> int:
        raise ZeroDivisionError

    dataset = find_dataset(db.engine, db.book, "people")
    plan = db.plan("people", method="rosnam", **SMALL)
    job = Job.of(dataset, plan, who="eve", request_id=None)
    with pytest.raises(QueryFailed):
        run(db.engine, db.book, job, releasing(ask))


def test_after_a_few_lost_runs_the_dataset_waits(ledger: Ledger) -> None:
    """Five runs may be lost; the sixth is refused, charges nothing, and says what each side can do."""
    lose(ledger, 5)
    with pytest.raises(RunsUnfinished) as caught:
        ledger.reserve(charge("next"))
    assert (caught.value.lost, caught.value.reserved, caught.value.limit, caught.value.exit_code) == (5, 0, 5, 3)
    assert "as owner: dpsql ledger accept --table adult" in str(caught.value)
    assert ledger.budget("adult").spent == 5 * NANO
    assert ledger.find_request("next") is None
    assert ledger.verify() == []


def test_a_run_without_an_end_counts_as_a_lost_one(ledger: Ledger) -> None:
    """To kill a run, or to leave it reserved, is no way around the count."""
    for number in range(5):
        ledger.reserve(charge(f"killed{number}"))
    with pytest.raises(RunsUnfinished) as caught:
        ledger.reserve(charge("next"))
    assert (caught.value.lost, caught.value.reserved) == (0, 5)


def test_many_runs_at_once_do_not_pass_the_limit(ledger: Ledger, engine: Engine) -> None:
    """Of twenty runs that start together five are charged: the count is taken where writers queue."""

    def attempt(number: int) -> bool:
        try:
            return Ledger(engine).reserve(charge(f"r{number}")).fresh
        except RunsUnfinished:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(20))) == 5
    assert ledger.budget("adult").spent == 5 * NANO


def test_runs_that_end_well_do_not_count(ledger: Ledger) -> None:
    """However many runs release something, the dataset does not wait."""
    for number in range(8):
        entry = ledger.reserve(charge(f"r{number}"))
        ledger.write(lambda into, entry=entry: ledger.release(entry, "0" * 64, into))  # type: ignore[misc]
    assert ledger.budget("adult").standing.unfinished_runs == 0


def test_the_owners_acceptance_is_an_entry_and_starts_the_count_anew(ledger: Ledger) -> None:
    """After it five more runs may be lost, the act stands in the chain, and the charges stay."""
    lose(ledger, 5)
    accepted = ledger.accept_runs("adult", "ann")
    assert (accepted.event, accepted.who, accepted.details) == ("accept", "ann", {"lost": 5, "reserved": 0})
    for number in range(5):
        ledger.reserve(charge(f"r{number}"))
    with pytest.raises(RunsUnfinished):
        ledger.reserve(charge("next"))
    assert ledger.budget("adult").spent == 10 * NANO
    assert ledger.verify() == []


def test_a_run_that_ends_after_the_acceptance_is_taken_as_it_is(ledger: Ledger) -> None:
    """A run under way when the owner accepts is forgiven, whether it is released or lost later."""
    entry = ledger.reserve(charge("early"))
    ledger.accept_runs("adult", "ann")
    ledger.mark_lost(entry, "failed")
    assert ledger.budget("adult").standing.unfinished_runs == 0
    assert ledger.verify() == []


def test_the_limit_is_the_owners(ledger: Ledger) -> None:
    """A higher limit lets further runs go on at once, a lower one stops them, and both are entries."""
    lose(ledger, 5)
    ledger.set_limits("adult", "ann", lost_runs=6)
    assert ledger.reserve(charge("sixth")).fresh
    ledger.set_limits("adult", "ann", lost_runs=1)
    with pytest.raises(RunsUnfinished):
        ledger.reserve(charge("next"))
    assert [entry.details for entry in ledger.entries(event="limit")] == [{"lost_runs": 6}, {"lost_runs": 1}]
    assert ledger.verify() == []


def test_what_was_released_is_given_out_while_the_dataset_waits(ledger: Ledger) -> None:
    """A repeated request charges nothing, so it is answered."""
    entry = ledger.reserve(charge("good"))
    ledger.write(lambda into: ledger.release(entry, "0" * 64, into))
    lose(ledger, 5)
    assert ledger.reserve(charge("good")).state == "released"


@pytest.mark.parametrize("kind", ["pure", "label"])
def test_a_charge_below_the_least_is_refused(ledger: Ledger, kind: str) -> None:
    """It is not raised in silence: the error has both numbers, and nothing is charged."""
    if kind != "pure":
        ledger.set_cap("adult", NANO, "ann", kind=kind)
    with pytest.raises(ChargeTooSmall) as caught:
        ledger.reserve(charge("small", 999_999, kind=kind))
    assert (caught.value.needed, caught.value.least, caught.value.exit_code) == ("0.000999999", "0.001", 3)
    assert ledger.budget("adult", kind).spent == 0
    assert ledger.reserve(charge("least", 1_000_000, kind=kind)).fresh


def test_rho_has_a_least_charge_of_the_same_share(ledger: Ledger) -> None:
    """With a delta a run costs at least the share of the cap that it would cost in epsilon: as few runs fit."""
    ledger.set_cap("adult", 120_000_000, "ann", kind="approximate", details={"epsilon": "3", "delta": "1e-6"})
    with pytest.raises(ChargeTooSmall) as caught:
        ledger.reserve(charge("small", 39_999, kind="approximate"))
    assert (caught.value.measure, caught.value.least) == ("rho", "0.00004")
    assert ledger.reserve(charge("least", 40_000, kind="approximate")).fresh
    assert ledger.verify() == []


def test_public_data_has_no_limits(engine: Engine) -> None:
    """Without a cap there is nothing to protect: comparisons may fail as often as they like."""
    ledger = Ledger(engine)
    ledger.register("adult", "adult", None, {}, "ann")
    lose(ledger, 6)
    assert ledger.reserve(charge("small", 1)).fresh
    assert ledger.verify() == []


@pytest.mark.parametrize(
    "limits", [{"lost_runs": 0}, {"lost_runs": True}, {"lost_runs": 1.5}, {"least_epsilon": 0}, {}]
)
def test_limits_that_are_none_are_refused(ledger: Ledger, limits: dict[str, Any]) -> None:
    """A limit that would switch the protection off, or is no number, changes nothing."""
    with pytest.raises(ParameterError):
        ledger.set_limits("adult", "ann", **limits)
    assert ledger.budget("adult").standing.limits.lost_runs == 5


def test_acts_on_a_dataset_that_is_not_there_are_refused(ledger: Ledger) -> None:
    """The owner is told that there is no such dataset, and nothing is appended."""
    for act in (lambda: ledger.accept_runs("none", "ann"), lambda: ledger.set_limits("none", "ann", lost_runs=3)):
        with pytest.raises(NotRegistered):
            act()
    assert len(ledger.entries()) == 1


def test_verify_finds_a_charge_past_the_limits(ledger: Ledger, engine: Engine) -> None:
    """A ledger written by something that does not count is found out when its events are added up."""
    from dpsql.ledger.entry import event_of

    lose(ledger, 5)
    with ledger.transaction() as into:
        into.append(event_of(charge("forced")))
        into.run("UPDATE dpsql.budget SET whole = whole + 1000000000, spent = spent + 1000000000")
        into.run("UPDATE dpsql.analyst_budget SET spent = spent + 1000000000")
    [finding] = ledger.verify()
    assert "passes the limits that held then" in finding


def test_failing_methods_make_the_table_wait() -> None:
    """The kernel's own failures count: after five no method, bought size or evaluation is charged."""
    with memory(some_rows()) as db:
        fill(db.engine, "fresh", some_rows(3))
        db.train("people", name="m", method="rosnam", **SMALL)
        structure = db.structure("people", trees=4, ensembles=2)
        for _ in range(5):
            fail(db)
        before = stored(db)
        for ask in (
            lambda: db.train("people", **SMALL),
            lambda: db.advise("people", buy=0.1),
            lambda: db.evaluate("m", "people", epsilon=1),
            lambda: db.predict_private(structure, "fresh"),
        ):
            with pytest.raises(RunsUnfinished):
                ask()
        assert {name: rows for name, rows in stored(db).items() if name in before} == before
        db.accept_runs("people")
        assert db.train("people", **SMALL).name == "people_1"


SMALL_CHARGES = {
    "train": lambda db: db.train("people", epsilon="0.0001", method="rosnam", **SMALL),
    "buy": lambda db: db.advise("people", buy="0.0001"),
    "evaluate": lambda db: db.evaluate("m", "people", epsilon="0.0001"),
    "batch": lambda db: db.predict_private(db.structure("people", trees=4, ensembles=2), "fresh", epsilon="0.0001"),
    "party": lambda db: db.contribute("people", db.export_structure("people", **SMALL), epsilon="0.0001"),
}


@pytest.mark.parametrize("way", SMALL_CHARGES)
def test_every_way_to_be_charged_has_the_least_charge(way: str) -> None:
    """A run for 0.0001 is refused by each entry, and the budget stays as it was."""
    with memory(some_rows()) as db:
        fill(db.engine, "fresh", some_rows(3))
        db.train("people", name="m", method="rosnam", **SMALL)
        before = db.budget("people").spent
        with pytest.raises(ChargeTooSmall):
            SMALL_CHARGES[way](db)
        assert db.budget("people").spent == before


def test_registering_anew_keeps_limits_and_count() -> None:
    """`replace` is no way to start the count anew, and changes a limit only where one is given."""
    with memory(some_rows(), lost_runs=2, least_epsilon="0.5") as db:
        fail(db)
        fail(db)
        dataset = find_dataset(db.engine, db.book, "people")
        db.register("people", dataset.schema, cap=2000, replace=True)
        standing = db.budget("people").standing
        assert (standing.unfinished_runs, standing.limits.lost_runs, standing.limits.least_text) == (2, 2, "0.5")
        db.register("people", dataset.schema, cap=2000, replace=True, lost_runs=3)
        assert db.budget("people").standing.limits.lost_runs == 3
        assert rows_of(db.engine, "SELECT count(*) AS n FROM dpsql.entry WHERE event = 'register'") == [{"n": 3}]


def test_the_commands_show_the_count_and_accept_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train` exits with 3; `budget`, `doctor` and `ledger` tell why; `ledger accept --table` mends it."""
    path = tmp_path / "data.duckdb"
    with on_disk(path, some_rows(), lost_runs=1) as db:
        fail(db)
    here = ("--db", str(path))
    train = ("train", *here, "--table", "people", "--method", "rosnam", "--trees", "1")

    def said(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    code, told = said(*train)
    assert (code, "waits for its owner: 1 runs were lost" in told) == (3, True)
    assert "1 of 1 runs unfinished (1 lost, 0 reserved without an end)" in said("budget", *here)[1]
    assert "1 of 1 runs unfinished" in said("doctor", *here)[1]
    assert said("ledger", "accept", *here, "--table", "people")[0] == 0
    assert said("budget", *here, "--table", "people", "--lost-runs", "2")[0] == 0
    told = said("ledger", *here)[1]
    assert "accept" in told
    assert "lost runs 2" in told
    assert said(*train)[0] == 0


def test_an_open_database_needs_no_new_connection_to_see_an_acceptance(tmp_path: Path) -> None:
    """What another connection accepted counts at once."""
    path = tmp_path / "data.duckdb"
    with on_disk(path, some_rows(), lost_runs=1) as db:
        fail(db)
        with pytest.raises(DpsqlError):
            db.train("people", **SMALL)
        with connect(db.engine.connection.cursor()) as other:  # type: ignore[attr-defined]
            other.accept_runs("people")
        assert db.train("people", **SMALL).name == "people_1"
