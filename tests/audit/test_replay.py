"""Every way to spend a budget, replayed on random neighbours: no loss above the promise, nothing else that differs.

DPSQL_REPLAYS says how many pairs of each way, at least; a nightly run may take hundreds.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql import methods
from dpsql.audit.ways import WAYS, random_case, replay_report
from dpsql.kernel.operations import OPERATIONS
from tests.audit.pairs import INTRICATE, SCHEMA, case_with_a_loss, replays, trained

LABELS = [way for way in WAYS if "of labels" in way]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in LABELS])
def test_no_run_loses_more_than_it_was_charged(way: str) -> None:
    """Rows come and go: the loss is at most the promise, and shapes, statements, models and ledgers are the same."""
    found = list(replays(way))
    assert all(one.holds for one in found), replay_report(found)
    assert not any(one.failed for one in found), replay_report(found)


@pytest.mark.parametrize("way", LABELS)
def test_no_label_loses_more_than_it_was_charged(way: str) -> None:
    """Labels change, to declared and undeclared ones: what is read without noise is the same to the last bit."""
    found = list(replays(way))
    assert all(one.holds for one in found), replay_report(found)
    assert not any(one.failed for one in found), replay_report(found)


def test_the_intricate_ways_are_ways() -> None:
    """A way that is replayed more often than others is there under that name."""
    assert set(INTRICATE) <= set(WAYS)


def test_every_method_is_replayed() -> None:
    """Each method of the catalog has a way of its own, with a delta and for numbers where it can."""
    assert {method for method in methods.METHODS if not any(way.startswith(method) for way in WAYS)} == set()


@pytest.mark.parametrize("method", ["rdt", "id3", "snr", "mrf"])
def test_the_promise_is_reached(method: str) -> None:
    """Three equal rows of one unit reach what counts may lose, exactly: the audit has nothing to give away."""
    found = trained(method=method, depth=1)
    assert found.loss == found.promise == 1
    assert found.holds


def test_a_unit_that_does_not_count_loses_nothing() -> None:
    """Rows of unknown labels change nothing: each release had the same chance on both tables."""
    found = trained(((77, 9.0, "a", "??"), (77, 9.0, "a", None)), method="rdt", depth=1)
    assert found.loss == found.seen == 0
    assert found.releases > 0


def test_what_is_seen_is_at_most_the_worst() -> None:
    """The log-ratio of the outcome itself is within the bound that any outcome has."""
    found = trained(method="rosnam", trees=2, depth=2)
    assert 0 < abs(found.seen) <= found.loss <= found.promise


def test_between_them_the_ways_ask_every_operation() -> None:
    """All that a session can answer for a charge is seen: `auto` with all its steps, and a few methods beside it."""
    many = replace(SCHEMA, rows=100_000)
    asked = {step.operation for step in trained(schema=many, method="auto").steps}
    for method in ("rosnam", "mrf", "spe", "id3"):
        asked |= {step.operation for step in trained(method=method).steps}
    asked |= {
        step.operation
        for way in ("rdt of numbers", "size", "domains", "domains with a delta")
        for step in random_case(way, 0).replay().steps
    }
    cases = [random_case("domains", seed) for seed in range(8)]  # some made-up tables have no number, some no text
    asked |= {step.operation for case in cases for step in case.replay().steps}
    free = {name for name, kind in OPERATIONS.items() if kind.free}
    assert set(OPERATIONS) - asked == {"later"} | free


def test_a_charge_that_is_not_the_units_is_no_promise() -> None:
    """Where the unit pays for none of the entries, any loss is above the promise."""
    found = replace(case_with_a_loss("size"), pays=lambda entry: False).replay()
    assert found.loss > found.promise == 0
    assert not found.holds


def test_the_report_names_the_largest_ratio() -> None:
    """It says how many were replayed, how near the promise the nearest came, and which do not hold."""
    found = trained(method="rdt", depth=1)
    short = tuple(replace(claim, promise=Fraction(1, 2)) for claim in found.claims)
    words = replay_report([found, replace(found, claims=short)])
    assert "2 replays, 1 do not hold" in words
    assert "largest loss over promise: 2.000000" in words
    assert "DOES NOT HOLD: loss 1 of epsilon 0.5" in words


def test_no_way_is_refused_for_its_cap(caps_in_words: None) -> None:
    """A way that sets a cap says that it is meant: refused, it would lose nothing, and prove nothing."""
    found = random_case("domains with a delta", 0).replay()
    assert not found.failed
    assert found.releases > 0
