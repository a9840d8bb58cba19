"""Where the audit listens: in its own context alone, for the time of a run, and never past a mechanism."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.audit.record import LAPLACE, Diverged, Recorder
from dpsql.audit.seam import listen
from dpsql.errors import RunFailed
from dpsql.kernel import exact, noise, session, statement_size
from dpsql.kernel.operations import OPERATIONS, LeafCounts, Size
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.schema import Unit
from tests.kernel.helpers import held
from tests.kernel.helpers import session as open_session
from tests.tables import small_forest, some_rows

STEP = Step("n", Size(), 10**9)
FOREST = small_forest()
COUNTS = Step("leaves", LeafCounts(), 10**9, trees=FOREST.trees, shared=True, cells=FOREST.leaves * 3)


def places() -> list[Any]:
    """Return the functions that listeners are put in the place of."""
    names = ("add_noise", "discrete_laplace", "discrete_gaussian", "permute_and_flip", "exponential")
    operations = [vars(Session)[name] for name in OPERATIONS]
    return [exact.random_key, session.exponential, *(getattr(noise, name) for name in names), *operations]


def test_listeners_are_gone_after_a_run() -> None:
    """After the block, and after one that failed, every function is the real one again."""
    before = places()
    with listen(Recorder()):
        assert not any(one is other for one, other in zip(before, places(), strict=True))
    with pytest.raises(KeyError), listen(Recorder()):
        raise KeyError
    assert all(one is other for one, other in zip(before, places(), strict=True))


def test_a_limit_on_groups_is_gone_after_a_run() -> None:
    """Within the block forests are counted in statements of a few groups; after it the limit is the kernel's own."""
    before = statement_size.GROUPS_PER_STATEMENT
    assert statement_size.tree_ranges(FOREST, 3) == [(0, FOREST.trees)]
    with listen(Recorder(), groups=1):
        assert len(statement_size.tree_ranges(FOREST, 3)) == FOREST.trees > 1
    assert before == statement_size.GROUPS_PER_STATEMENT == exact.GROUPS_PER_STATEMENT


def test_a_run_of_another_thread_is_left_alone() -> None:
    """While one thread replays, another's session draws its own keys and noise, and is on no tape."""
    tape = recorded()
    recorder = Recorder(tape)
    released: list[Any] = []

    def other() -> None:
        opened = open_session(held(some_rows()), COUNTS)
        released.append((opened._rows._tickets.keys, opened.leaf_counts("leaves", FOREST)))

    with listen(recorder):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    keys, counts = released[0]
    assert not recorder.tape.operations
    assert not set(keys) & {key >> 1 for key in tape.keys}
    assert not np.array_equal(counts, tape.releases[0].released)


def recorded() -> Any:
    """Return the tape of a session that counts leaves."""
    recorder = Recorder()
    with listen(recorder):
        open_session(held(some_rows()), COUNTS).leaf_counts("leaves", FOREST)
    return recorder.tape


def test_a_replay_gives_out_the_same_values_for_other_rows() -> None:
    """On another table the keys and the released counts are those of the tape; the exact counts are its own."""
    tape = recorded()
    recorder = Recorder(tape)
    with listen(recorder):
        opened = open_session(held(some_rows(10)), COUNTS)
        found = opened.leaf_counts("leaves", FOREST)
    assert np.array_equal(found, tape.releases[0].released)
    assert recorder.tape.keys == tape.keys
    assert recorder.tape.releases[0].exact.sum() < tape.releases[0].exact.sum()
    assert recorder.tape.operations == tape.operations


def test_a_tape_says_the_noise_and_what_the_step_may_cost() -> None:
    """The scale is the one the sampler was asked for, the allowance the step's epsilon."""
    tape = recorded()
    assert (tape.releases[0].mechanism, tape.releases[0].parameter) == (LAPLACE, Fraction(FOREST.trees))
    assert (tape.operations[0].step, tape.operations[0].allowed) == ("leaves", 1)


def test_a_replay_stops_where_the_run_goes_another_way() -> None:
    """Another question than the recorded one cannot be answered from the tape; the kernel seals what stopped it."""
    recorder = Recorder(recorded())
    with listen(recorder), pytest.raises(RunFailed):
        open_session(held(some_rows()), STEP).size("n")
    assert recorder.diverged == "counts had another shape"


def test_noise_outside_of_an_operation_stops_the_audit() -> None:
    """Exact values that meet noise without a session's knowledge are no release that was planned."""
    with listen(Recorder()), pytest.raises(Diverged):
        noise.add_noise(np.array([3]), STEP, Promise(Unit()))


def test_a_refused_step_is_on_no_tape() -> None:
    """What the session refuses was not answered: nothing is written down."""
    recorder = Recorder()
    with listen(recorder), pytest.raises(session.AllowanceExceeded):
        open_session(held(some_rows()), STEP).size("another")
    assert not recorder.tape.operations
    assert not recorder.diverged


def test_the_text_of_a_tape_shows_no_count() -> None:
    """A tape holds exact counts; its text says how many releases there are, and no more."""
    assert repr(recorded()) == "<Tape: 1 operations, 1 releases>"
