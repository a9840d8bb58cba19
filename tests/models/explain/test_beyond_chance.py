"""Reasons are corrected for how many could have been picked: where nothing is there, hardly any model names one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.models.explain.beyond_chance import counts_beyond_chance, log_chances, total_variance
from dpsql.models.explain.class_profiles import deviations_above_chance
from dpsql.models.explain.facts import Counts, Facts
from dpsql.schema import CELLS, Categorical, Feature, Numeric
from dpsql.trees.estimate.marginal_profile import Marginal, class_shares, class_totals, marginal_profile

SHARES = np.array([0.88, 0.12])
NUMBERS, CATEGORIES = 5, 3
#: Bounds a thousand times too wide: all rows lie in two cells in the middle, and the other cells hold noise alone.
WIDE = (31, 33)
USUAL = (0, CELLS)
Table = tuple[Facts, NDArray[np.float64]]


def features() -> list[Feature]:
    """Return five numbers and three categories of eleven values."""
    names = tuple(map(str, range(11)))
    return [
        *(Numeric(f"number_{place}", 0, CELLS) for place in range(NUMBERS)),
        *(Categorical(f"word_{place}", names) for place in range(CATEGORIES)),
    ]


def released(
    seed: int, span: tuple[int, int], *, rows: int = 20_000, scale: float = 30.0, effect: float = 0.0
) -> Table:
    """Return the facts and the class shares that `auto` would leave; `effect` is added where the first number is high.

    The counts carry discrete Laplace noise, and groups are formed as in a run, by a look at the noisy counts.
    """
    generator = np.random.default_rng(seed)
    schema, stop = features(), 1 - np.exp(-1 / scale)
    cells = [generator.integers(*(span if isinstance(each, Numeric) else (0, 11)), rows) for each in schema]
    label = (generator.random(rows) < SHARES[1] + effect * (cells[0] >= 48)).astype(int)
    marginals = []
    for feature, own in zip(schema, cells, strict=True):
        counts = np.zeros((feature.cells, 2))
        np.add.at(counts, (own, label), 1)
        counts += generator.geometric(stop, counts.shape) - generator.geometric(stop, counts.shape)
        marginals.append(Marginal(counts, scale * np.sqrt(2), isinstance(feature, Numeric)))
    totals = class_totals(marginals)
    profiles = [marginal_profile(marginal, totals) for marginal in marginals]
    kept = {
        feature.name: Counts(
            tuple(tuple(np.flatnonzero(profile.group == number).tolist()) for number in range(profile.groups)),
            profile.counts,
            profile.spread,
        )
        for feature, profile in zip(schema, profiles, strict=True)
    }
    return Facts(totals, kept), class_shares(totals)


def named(table: Table) -> list[str]:
    """Return the features of which a value is named for some class."""
    facts, shares = table
    variance, many = total_variance(facts), len(facts.features)
    return [
        feature.name
        for feature in features()
        if counts_beyond_chance(
            feature, facts.features[feature.name], shares, features=many, share_variance=variance
        ).any()
    ]


@pytest.mark.parametrize("span", [WIDE, USUAL])
def test_where_nothing_is_there_few_models_name_anything(span: tuple[int, int]) -> None:
    """Of 120 models of tables whose label is drawn by itself, at most 5 % name a value."""
    assert sum(bool(named(released(seed, span))) for seed in range(120)) <= 6


def test_an_interval_for_one_range_alone_would_not_do() -> None:
    """Two standard errors, which suffice for one range fixed beforehand, name a value in nearly all of these models."""
    hits = 0
    for seed in range(20):
        facts, shares = released(seed, WIDE)
        hits += any((deviations_above_chance(counts, shares) > 2).any() for counts in facts.features.values())
    assert hits >= 18


def test_what_is_there_is_named() -> None:
    """A number whose upper quarter has 30 % of the rare class in place of 12 % is named by every model, alone."""
    assert [named(released(seed, USUAL, scale=10, effect=0.18)) for seed in range(10)] == [["number_0"]] * 10


def test_neighbours_stand_out_together() -> None:
    """Eight ranges that are each a little above the average, none of which would do alone, are named as one."""
    age = Numeric("age", 0, 64)
    groups = tuple(tuple(range(first, first + 4)) for first in range(0, 64, 4))
    rare = np.where(np.arange(16) < 8, 180.0, 120.0)
    counts = Counts(groups, np.stack([1000 - rare, rare], axis=1), np.full(16, 10.0))
    shares = np.array([0.85, 0.15])
    together = counts_beyond_chance(age, counts, shares, features=5, share_variance=0.0)
    assert together[:8, 1].all()
    assert not together[8:, 1].any()
    alone = Counts(groups[:1] + groups[8:], counts.noisy_counts[[0, *range(8, 16)]], counts.errors[:9])
    assert not counts_beyond_chance(age, alone, shares, features=5, share_variance=0.0)[:, 1].any()


def tail(scale: float) -> float:
    """Return which share of groups without any connection has a chance of at most 1 %, with noise of scale 20 told."""
    generator, stop = np.random.default_rng(7), 1 - np.exp(-1 / scale)
    counts = generator.multinomial(400, SHARES, 20_000).astype(float)
    counts += generator.geometric(stop, counts.shape) - generator.geometric(stop, counts.shape)
    told = Counts(tuple((cell,) for cell in range(20_000)), counts, np.full(20_000, 20 * np.sqrt(2)))
    return float((log_chances(told, SHARES, 0.0, rows=8e6)[:, 1] <= np.log(0.01)).mean())


def test_a_chance_is_what_it_says() -> None:
    """At most 1 % of counts without any connection have a chance of 1 % or less, and not far fewer."""
    assert 0.004 < tail(20) <= 0.011


def test_noise_that_is_stronger_than_told_shows() -> None:
    """With noise 30 % stronger than told, more than 1 % have: the test can tell."""
    assert tail(26) > 0.015
