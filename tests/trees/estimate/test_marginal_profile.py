"""Profiles of noisy marginals: groups that part the bins, lifts that follow signals, not noise, an order of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.trees.estimate.marginal_profile import (
    GROUPS,
    MOST_GROUPS,
    Marginal,
    MarginalProfile,
    class_lifts,
    class_order,
    class_shares,
    class_totals,
    marginal_profile,
)

Floats = NDArray[np.float64]


def noisy(counts: Floats, deviation: float, seed: int) -> Floats:
    """Return counts plus noise of that deviation."""
    return np.asarray(counts + np.random.default_rng(seed).laplace(0, deviation / np.sqrt(2), counts.shape).round())


def of(counts: object, deviation: float = 0.01, *, ordered: bool = True) -> MarginalProfile:
    """Return the profile of counts."""
    found = np.array(counts, np.float64)
    return marginal_profile(Marginal(found, deviation, ordered), found.sum(axis=0))


@settings(max_examples=150)
@given(
    bins=st.integers(1, 64),
    classes=st.integers(2, 26),
    rows=st.sampled_from([0, 3, 500, 10**5]),
    deviation=st.sampled_from([0.1, 5.0, 1e4]),
    ordered=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_groups_part_the_bins(bins: int, classes: int, rows: int, deviation: float, ordered: bool, seed: int) -> None:
    """Whatever the counts: every bin is in one group, none is empty, neighbours stay together, all is finite."""
    generator = np.random.default_rng(seed)
    exact = generator.multinomial(rows, generator.dirichlet(np.full(bins * classes, 0.3))).reshape(bins, classes)
    marginal = Marginal(noisy(exact.astype(float), deviation, seed), deviation, ordered)
    found = marginal_profile(marginal, class_totals([marginal]))
    assert np.unique(found.group).tolist() == list(range(found.groups))
    assert found.groups <= min(bins, MOST_GROUPS)
    if ordered:
        assert (np.diff(found.group) >= 0).all()
    for group in range(found.groups):
        assert found.counts[group] == pytest.approx(marginal.counts[found.group == group].sum(axis=0))
        assert found.spread[group] == pytest.approx(deviation * np.sqrt((found.group == group).sum()))
    shaped = (found.mass, found.lifts, found.shares, np.array(found.information))
    assert all(np.isfinite(one).all() for one in shaped)
    assert found.shares.sum(axis=0) == pytest.approx(1)
    assert found.mass.sum() == pytest.approx(1) or found.counts.sum() <= 0 or (found.counts.sum(axis=1) <= 0).all()


def test_groups_of_a_number_have_enough_rows() -> None:
    """Where classes do not change, each group holds one of twelve parts of all rows, or more."""
    counts = np.outer(np.random.default_rng(1).integers(0, 400, 64), [0.3, 0.7])
    found = of(counts)
    assert found.counts.sum(axis=1).min() >= counts.sum() / GROUPS
    assert 6 <= found.groups <= GROUPS


def test_groups_stand_out_of_the_noise() -> None:
    """Bins below the noise do not count; each group holds more than the noise in those that do."""
    deviation, counts = 200.0, noisy(np.full((64, 2), 10.0), 200.0, 3)
    group, noise = of(counts, deviation).group, deviation * np.sqrt(2)
    standing = np.where(counts.sum(axis=1) < noise, 0, counts.sum(axis=1))
    assert np.bincount(group, standing).min() >= noise
    assert len(set(group.tolist())) <= np.count_nonzero(standing) < 20


@pytest.mark.parametrize("change", [1, 3, 7, 30, 62])
def test_a_change_of_classes_inside_a_group_is_found(change: int) -> None:
    """The bins left and right of where the classes turn are in different groups, wherever that is."""
    counts = np.array([[90.0, 10.0] if place < change else [10.0, 90.0] for place in range(64)])
    group = of(noisy(counts, 2.0, change), 2.0).group
    assert group[change - 1] < group[change]


def test_noise_is_seldom_taken_for_a_change() -> None:
    """Where classes do not change groups are parted beyond their rows' share in a few of a hundred tables at most."""
    parted = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        exact = np.stack([generator.poisson(60, 64), generator.poisson(40, 64)], axis=1).astype(float)
        parted += of(noisy(exact, 5.0, seed), 5.0).groups > GROUPS
    assert parted <= 5


def test_lifts_are_nothing_where_there_is_nothing() -> None:
    """Of noise and chance alone lifts are 0 in expectation, and small; a signal of their size would be seen."""
    found = []
    for seed in range(300):
        generator = np.random.default_rng(seed)
        exact = np.stack([generator.poisson(120, 4), generator.poisson(80, 4)], axis=1).astype(float)
        found.append(class_lifts(noisy(exact, 10.0, seed), np.full(4, 10.0), np.array([0.6, 0.4])))
    values = np.array(found)
    error = values.std(axis=0) / np.sqrt(300)
    assert (np.abs(values.mean(axis=0)) < 5 * error + 0.01).all()
    assert np.abs(values).mean() < 0.12


def test_lifts_are_right_for_clear_signals() -> None:
    """With many rows and little noise a lift is the log of a class's share over its share of all rows, centred."""
    counts = np.array([[9000.0, 1000.0, 5000.0], [1000.0, 9000.0, 5000.0]])
    prior = np.array([1 / 3] * 3)
    found = class_lifts(counts, np.full(2, 0.1), prior)
    raw = np.log(counts / counts.sum(axis=1, keepdims=True) / prior)
    expected = raw - (raw * prior).sum(axis=1, keepdims=True)
    assert found == pytest.approx(expected, abs=0.01)


def test_lifts_vanish_with_noise() -> None:
    """The same counts under noise of their own size say next to nothing."""
    counts = np.array([[900.0, 100.0], [100.0, 900.0]])
    clear, drowned = (class_lifts(counts, np.full(2, noise), np.array([0.5, 0.5])) for noise in (0.1, 1000.0))
    assert np.abs(clear).min() > 1.0
    assert np.abs(drowned).max() < 0.15 * np.abs(clear).min()


def test_information_tells_features_apart() -> None:
    """A feature that parts the classes tells more than one that hardly does, and that more than none."""
    told = [
        of([[500 + far, 500 - far], [500 - far, 500 + far]], 3.0, ordered=False).information for far in (0, 50, 450)
    ]
    assert told[0] < 0.02 < told[1] < told[2]


@pytest.mark.parametrize("seed", range(5))
def test_categories_are_ordered_by_their_classes(seed: int) -> None:
    """Values come in the order of the share of a class, from either end, and the groups are numbered in it."""
    share = np.random.default_rng(seed).permutation(np.linspace(0.05, 0.95, 10))
    counts = np.stack([1000 * share, 1000 * (1 - share)], axis=1)
    order = class_order(Marginal(counts, 0.1, ordered=False), np.array([0.5, 0.5]))
    steps = np.diff(share[order])
    assert (steps > 0).all() or (steps < 0).all()
    found = of(counts, 0.1, ordered=False)
    assert found.groups == 10
    by_group = share[np.argsort(found.group)]
    assert by_group.tolist() in (sorted(share.tolist()), sorted(share.tolist(), reverse=True))


def test_categories_of_many_values_are_merged_along_their_order() -> None:
    """Of 63 values with equal rows about twelve groups are made, each of values with nearly the same classes."""
    share = np.random.default_rng(1).permutation(np.linspace(0.02, 0.98, 63))
    found = of(np.stack([100 * share, 100 * (1 - share)], axis=1), 0.1, ordered=False)
    assert 8 <= found.groups <= GROUPS
    widths = [np.ptp(share[found.group == group]) for group in range(found.groups)]
    assert max(widths) < 0.25


def test_noise_alone_makes_no_more_groups_than_allowed() -> None:
    """A category of thousands of values that noise drowns has as few groups as any other."""
    counts = noisy(np.zeros((4097, 3)), 50.0, 1)
    found = marginal_profile(Marginal(counts, 50.0, ordered=False), np.array([30.0, 20.0, 10.0]))
    assert found.groups <= MOST_GROUPS


def test_totals_trust_marginals_with_fewer_bins() -> None:
    """Every marginal has the rows of each class; the weighted mean is nearer to the one with less noise in its sum."""
    exact = [np.full((2, 2), [600.0, 400.0]), np.full((64, 2), [50.0, 50.0])]
    found = class_totals([Marginal(one, 10.0, ordered=True) for one in exact])
    assert found == pytest.approx((32 * np.array([1200, 800]) + np.array([3200, 3200])) / 33)


@pytest.mark.parametrize("totals", [[0.0, 0.0], [-50.0, -3.0], [1e9, -1.0], [1.0, 1e6, 0.0]])
def test_no_class_is_wiped_out(totals: list[float]) -> None:
    """Shares are positive and add up to 1 whatever noise has made of the totals."""
    found = class_shares(np.array(totals))
    assert found.sum() == pytest.approx(1)
    assert found.min() > 5e-4
