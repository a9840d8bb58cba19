"""Class profiles: what is frequent in a class is named, what noise alone brings is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpsql.models.explain.class_profiles import deviations_above_chance, is_drowned
from dpsql.models.explain.facts import Counts
from dpsql.models.explain.groups import counted_groups
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from tests.models.explain.made import naive_bayes

PEOPLE = Schema(
    "income",
    ("low", "high"),
    (
        Categorical("kin", ("Husband", "Wife", "Child", "Alone")),
        Numeric("age", 0, 64),
        Boolean("owner"),
        Categorical("sign", ("ram", "bull", "twins")),
    ),
)


def people(rows: int = 40_000, seed: int = 2) -> pd.DataFrame:
    """Return rows in which kin, age (32 to 56) and owning speak for a high income, and the sign for nothing."""
    generator = np.random.default_rng(seed)
    kin = generator.choice(["Husband", "Wife", "Child", "Alone", None], rows, p=[0.3, 0.1, 0.25, 0.25, 0.1])
    age = generator.uniform(0, 64, rows)
    owner = generator.random(rows) < 0.3
    likely = 0.1 + 0.3 * np.isin(kin, ["Husband", "Wife"]) + 0.2 * ((age >= 32) & (age < 56)) + 0.2 * owner
    return pd.DataFrame(
        {
            "kin": kin,
            "age": age,
            "owner": owner,
            "sign": generator.choice(["ram", "bull", "twins"], rows),
            "income": np.where(generator.random(rows) < likely, "high", "low"),
        }
    )


@pytest.fixture(scope="module")
def model() -> Model:
    """Make a model of these people, with noise of scale 10 on each count."""
    return naive_bayes(PEOPLE, people(), scale=10)


def test_a_profile_names_what_speaks_for_a_class(model: Model) -> None:
    """The reasons of each class are the values it was made from, in words; strongest first; the sign is none."""
    learned = model.explain()
    high = {reason.feature: reason.text for reason in learned.profile("high").reasons}
    low = {reason.feature: reason.text for reason in learned.profile("low").reasons}
    assert high == {"kin": "kin is Husband or Wife", "age": "age 32 to 56", "owner": "owner is true"}
    assert low["age"] == "age < 32 or ≥ 56"
    assert low["owner"] == "owner is false"
    assert set(low["kin"].removeprefix("kin is ").replace(" or ", ", ").split(", ")) == {
        "Child", "Alone", "unknown", "NULL"
    }  # fmt: skip
    assert learned.profile("high").reasons[0].feature == "kin"


def test_a_lift_is_how_much_more_frequent_values_are(model: Model) -> None:
    """The lift of a reason is P(values | class) / P(values) of the exact rows, within three of its standard errors."""
    frame = people()
    reason = next(one for one in model.explain().profile("high").reasons if one.feature == "kin")
    spoken = frame["kin"].isin(["Husband", "Wife"])
    exact = spoken[frame["income"] == "high"].mean() / spoken.mean()
    assert reason.error is not None
    assert 0 < reason.error < 0.1
    assert abs(reason.effect - exact) < 3 * reason.error


def test_the_share_of_a_class_is_its_noisy_share(model: Model) -> None:
    """Classes have the share of rows that was released."""
    exact = (people()["income"] == "high").mean()
    assert model.explain().profile("high").share == pytest.approx(exact, abs=0.01)


def test_what_drowned_is_said(model: Model) -> None:
    """The sign, which tells nothing, is named as drowned; the others are not."""
    learned = model.explain()
    assert [effect.feature for effect in learned.effects if effect.drowned] == ["sign"]
    assert "drowned in noise, no value stands out: sign" in str(learned)


def test_much_noise_drowns_everything() -> None:
    """With noise as large as the table no value is named for any class."""
    learned = naive_bayes(PEOPLE, people(300), scale=300, seed=3).explain()
    named = {reason.feature for profile in learned.profiles for reason in profile.reasons}
    assert all(effect.drowned for effect in learned.effects)
    assert not named
    assert "nothing that stands out" in str(learned)


def errors_at(scale: float) -> float:
    """Return the standard deviation of `standing_out` over many counts of one rate, with noise of scale 20 declared."""
    generator = np.random.default_rng(7)
    exact = generator.multinomial(1000, [0.3, 0.7], 4000).astype(float)
    noisy = exact + generator.laplace(0, scale, exact.shape)
    counts = Counts(tuple((cell,) for cell in range(4000)), noisy, np.full(4000, 20 * np.sqrt(2)))
    return float(np.std(deviations_above_chance(counts, np.array([0.3, 0.7]))[:, 0]))


def test_standing_out_is_in_standard_errors() -> None:
    """Where a class has its overall share in every group, the figure has a standard deviation of 1 ± 5 %."""
    assert errors_at(20) == pytest.approx(1, abs=0.05)


def test_noise_that_is_stronger_than_declared_shows() -> None:
    """The same test fails by far with noise 30 % off: it can tell."""
    assert errors_at(26) > 1.05
    assert errors_at(14) < 0.95


def test_pure_noise_drowns_nine_times_out_of_ten() -> None:
    """Counts without any signal are called drowned in at least 85 % of 400 draws."""
    generator = np.random.default_rng(11)
    groups = tuple((cell,) for cell in range(12))
    lost = []
    for _ in range(400):
        noisy = generator.multinomial(200, [0.25, 0.75], 12) + generator.laplace(0, 5, (12, 2))
        lost.append(is_drowned(Counts(groups, noisy, np.full(12, 5 * np.sqrt(2))), np.array([0.25, 0.75])))
    assert np.mean(lost) > 0.85


def test_errors_of_shares_cover_the_truth() -> None:
    """Two standard errors around a released share hold the true one in 93 % to 99 % of 2000 groups."""
    generator = np.random.default_rng(13)
    noisy = generator.multinomial(500, [0.4, 0.6], 2000) + generator.laplace(0, 10, (2000, 2))
    counts = Counts(tuple((cell,) for cell in range(2000)), noisy, np.full(2000, 10 * np.sqrt(2)))
    groups = counted_groups(Categorical("c", tuple(map(str, range(2000)))), counts, 1e6)
    hit = [abs(group.values[0] - 0.4) <= 2 * group.errors[0] for group in groups if group.errors is not None]
    assert len(hit) == 2000
    assert 0.93 < np.mean(hit) < 0.99
