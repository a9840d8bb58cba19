"""Descent: known minima are found, never a worse point than the start, and it stops when told to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.trees.strategies.descent import descend
from dpsql.trees.strategies.strategy import Floats

START = np.array([-1.2, 1.0])


def rosenbrock(point: Floats) -> tuple[float, Floats]:
    """Return the banana-shaped valley of Rosenbrock 1960, lowest at (1, 1, …), and its gradient."""
    here, there = point[:-1], point[1:]
    value = float((100 * (there - here**2) ** 2 + (1 - here) ** 2).sum())
    gradient = np.zeros_like(point)
    gradient[:-1] = -400 * here * (there - here**2) - 2 * (1 - here)
    gradient[1:] += 200 * (there - here**2)
    return value, gradient


@pytest.mark.parametrize("start", [START, np.array([3.0, -4.0]), np.zeros(2), np.full(6, -0.5)])
def test_the_end_of_a_bent_valley_is_found(start: Floats) -> None:
    """Rosenbrock's function is followed to its only minimum."""
    found = descend(rosenbrock, start, steps=500)
    np.testing.assert_allclose(found, 1, atol=1e-3)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 15))
def test_the_minimum_of_a_quadratic_is_found(seed: int, count: int) -> None:
    """A bowl a hundred times as long as wide ends where its gradient does."""
    generator = np.random.default_rng(seed)
    turned = np.linalg.qr(generator.normal(size=(count, count)))[0]
    bowl = turned @ np.diag(np.geomspace(1, 100, count)) @ turned.T
    lowest = generator.normal(size=count)

    def slope(point: Floats) -> tuple[float, Floats]:
        off = point - lowest
        return float(off @ bowl @ off), 2 * bowl @ off

    found = descend(slope, generator.normal(size=count) * 5, steps=400)
    np.testing.assert_allclose(found, lowest, atol=1e-2)


def test_it_starts_where_it_should_end() -> None:
    """At the minimum no step is taken."""
    assert descend(rosenbrock, np.ones(2), steps=50).tolist() == [1.0, 1.0]


def test_no_steps_are_no_way() -> None:
    """With no steps the start is what is returned."""
    assert descend(rosenbrock, START, steps=0).tolist() == START.tolist()


def test_it_does_not_start_when_told_to_stop() -> None:
    """The start is returned, and its slope is the only one that was asked for."""
    asked = []

    def slope(point: Floats) -> tuple[float, Floats]:
        asked.append(point)
        return rosenbrock(point)

    found = descend(slope, START, steps=100, go_on=lambda: False)
    assert found.tolist() == START.tolist()
    assert len(asked) == 1


@settings(max_examples=40)
@given(allowed=st.integers(0, 60))
def test_it_stops_when_told_to(allowed: int) -> None:
    """After so many questions whether to go on it ends, no higher than any point before: the best so far."""
    left = [allowed]

    def go_on() -> bool:
        left[0] -= 1
        return left[0] >= 0

    found = descend(rosenbrock, START, steps=1000, go_on=go_on)
    assert left[0] >= -2
    assert rosenbrock(found)[0] <= rosenbrock(START)[0]


def test_each_step_goes_down() -> None:
    """The more steps are allowed, the lower it ends."""
    values = [rosenbrock(descend(rosenbrock, START, steps=steps))[0] for steps in range(30)]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0] / 10


def test_points_without_a_value_are_stepped_around() -> None:
    """Where the function is not finite the step is halved until it is."""

    def slope(point: Floats) -> tuple[float, Floats]:
        if (point <= 0).any():
            return float("inf"), np.full_like(point, np.nan)
        return float((point - np.log(point)).sum()), 1 - 1 / point

    np.testing.assert_allclose(descend(slope, np.array([0.01, 40.0]), steps=200), 1, atol=1e-3)


def test_the_start_is_left_as_it_was() -> None:
    """The array that was given is not written to."""
    start = START.copy()
    descend(rosenbrock, start, steps=20)
    assert start.tolist() == START.tolist()
