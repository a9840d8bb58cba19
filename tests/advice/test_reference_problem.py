"""The model of learning: it grows with rows and epsilon, and its figures are those of its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from dpsql.advice.reference_problem import VISIBLE, Problem, best_rule_gain, usual_majority
from dpsql.schema import Boolean, Schema

PROBLEMS = some.builds(
    lambda features, classes, max_rows, skew: Problem(
        features, classes, max_rows, 1 / classes + skew * (1 - 1 / classes)
    ),
    some.integers(1, 200),
    some.integers(2, 30),
    some.integers(1, 20),
    some.floats(0, 0.95),
)
SIZES = some.floats(1, 1e9)
EPSILONS = some.floats(1e-6, 1e3)


@given(PROBLEMS, SIZES, EPSILONS, some.floats(1, 100))
def test_more_is_never_worse(problem: Problem, rows: float, epsilon: float, times: float) -> None:
    """More rows or more epsilon never keep less of the signal and never gain less."""
    for more in ((rows * times, epsilon), (rows, epsilon * times)):
        assert problem.signal_kept(*more) >= problem.signal_kept(rows, epsilon)
        assert problem.gain(*more) >= problem.gain(rows, epsilon) - 1e-12


@given(PROBLEMS, some.floats(10, 1e7))
def test_break_even_is_where_the_gain_becomes_visible(problem: Problem, rows: float) -> None:
    """Just above the smallest epsilon the gain is visible, just below it is not; none is told where none helps."""
    least = problem.break_even(rows)
    if least is None:
        assert problem.gain(rows, 1e9) < VISIBLE
        return
    assert problem.gain(rows, 1.001 * least) >= VISIBLE > problem.gain(rows, 0.999 * least) - 1e-9
    needed = problem.rows_needed(least * 1.001)
    assert needed is not None
    assert needed <= rows * 1.001


def test_the_gain_is_that_of_the_best_rule() -> None:
    """Two drawn bell curves, cut where their densities cross, give the closed formula's share of right rows."""
    generator, separation, majority = np.random.default_rng(3), 1.5, 0.7
    first = generator.random(400_000) < majority
    numbers = generator.normal(size=first.size) + np.where(first, separation / 2, -separation / 2)
    log_odds = separation * numbers + math.log(majority / (1 - majority))
    measured = ((log_odds > 0) == first).mean() - majority
    assert best_rule_gain(separation, majority) == pytest.approx(measured, abs=0.003)
    assert best_rule_gain(1.3 * separation, majority) != pytest.approx(measured, abs=0.003)


def test_noise_and_sampling_go_in_as_documented() -> None:
    """At a strength of `noise` half of the signal is kept; max_rows divides strength; sampling counts rows alone."""
    problem = Problem(12, 2, 1, 0.6)
    assert problem.signal_kept(1e9, problem.noise / 1e9) == pytest.approx(0.5)
    assert problem.signal_kept(problem.sampling_rows, 1e9) == pytest.approx(0.5)
    assert Problem(12, 2, 4, 0.6).signal_kept(1e6, 0.004) == pytest.approx(problem.signal_kept(1e6, 0.001))


def test_a_larger_class_is_harder_to_beat() -> None:
    """The smallest epsilon grows with the largest class's share, until none is enough."""
    found = [Problem(14, 2, 1, share).break_even(5000) for share in (0.5, 0.6, 0.7, 0.8, 0.9)]
    known = [least for least in found if least is not None]
    assert known == sorted(known)
    assert Problem(14, 2, 1, 0.99).break_even(5000) is None


def test_the_problem_of_a_schema_takes_its_public_facts() -> None:
    """Features, classes and max_rows come from the schema, the share from the guess or from the rule."""
    schema = Schema("y", ("a", "b", "c"), (Boolean("x"), Boolean("z")))
    assert Problem.of(schema) == Problem(2, 3, 1, usual_majority(3), assumed=True)
    assert Problem.of(schema, 0.9) == Problem(2, 3, 1, 0.9)
    assert Problem.of(schema).easiest.majority == pytest.approx(1 / 3)
    assert Problem.of(schema, 0.9).easiest.majority == 0.9
