"""Curves and costs from noisy counts: intervals hold the truth, those of the cheapest whichever threshold is picked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.models.curves import NOBODY, RowsByProbability, cheapest, curve, rows_at_points, rows_on_grid, shown_points
from dpsql.models.evaluate import Evaluation
from dpsql.models.figures import STEPS
from dpsql.models.noisy_figures import noise_variance
from dpsql.models.plot import check_curves, curve_plot
from dpsql.trees.score_grid import POINTS

SCALE = 12
TIMES = 300
Array = np.ndarray[Any, Any]
#: The share of a population's rows at each point: of the class, and of the others.
POSITIVES = np.linspace(0.2, 1.0, len(POINTS)) / np.linspace(0.2, 1.0, len(POINTS)).sum() * 0.3
NEGATIVES = np.linspace(1.5, 0.1, len(POINTS)) / np.linspace(1.5, 0.1, len(POINTS)).sum() * 0.7


def noisy_rows(count: int, seed: int, *, variance: float | None = None) -> RowsByProbability:
    """Return a sample of a population, counted with noise; `variance` is what is said about the noise."""
    exact = np.random.default_rng(seed).multinomial(count, np.concatenate([POSITIVES, NEGATIVES]))
    noise = discrete_laplace(SCALE, len(exact))
    positives, negatives = np.split((exact + noise).astype(float), 2)
    return rows_at_points("yes", positives, negatives, noise_variance(SCALE) if variance is None else variance)


def truth(place: int) -> tuple[float, float]:
    """Return recall and precision of the population from a point on."""
    right = POSITIVES[place:].sum()
    return right / POSITIVES.sum(), right / (right + NEGATIVES[place:].sum())


def held(variance: float | None) -> float:
    """Return how often the intervals of recall and precision hold those of the population."""
    hits, tries = 0, 0
    for seed in range(TIMES):
        points = curve(noisy_rows(2000, seed, variance=variance))
        for place in (4, 13, 20):
            line, (recall, precision) = points.iloc[place], truth(place)
            hits += line["recall_low"] <= recall <= line["recall_high"]
            hits += line["precision_low"] <= precision <= line["precision_high"]
            tries += 2
    return hits / tries


def test_intervals_of_a_curve_hold_95_times_in_100() -> None:
    """93 % and more of recall and precision at three thresholds are inside; without the noise's variance fewer."""
    assert held(None) >= 0.93
    assert held(1e-9) < 0.9


def population_cost(threshold: float, missed: float, false_alarm: float) -> float:
    """Return the mean cost of a row of the population."""
    place = int(np.searchsorted(rows_at_points("", POSITIVES, NEGATIVES, 0).thresholds, threshold))
    return missed * POSITIVES[:place].sum() + false_alarm * NEGATIVES[place:].sum()


def test_the_interval_of_the_cheapest_holds_although_it_was_picked() -> None:
    """The lowest of many noisy costs is too low on average; its interval still holds the true cost of its threshold."""
    hits, low = 0, 0
    for seed in range(TIMES):
        found = cheapest(noisy_rows(1000, seed), missed=4, false_alarm=1)
        cost = population_cost(found.threshold, 4, 1)
        hits += found.cost.low <= cost <= found.cost.high
        low += found.cost.value < cost
    assert hits >= 0.97 * TIMES  # as if one threshold had been asked for: 91 %
    assert low > 0.5 * TIMES


def test_without_noise_the_best_threshold_of_the_population_is_found() -> None:
    """All thresholds are tried, naming every row and no row among them."""
    rows = rows_at_points("yes", POSITIVES * 1000, NEGATIVES * 1000, 0.0)
    for missed, false_alarm in ((4, 1), (1, 4), (100, 1), (1, 1000)):
        found = cheapest(rows, missed=missed, false_alarm=false_alarm)
        costs = [population_cost(threshold, missed, false_alarm) for threshold in (*rows.thresholds, NOBODY)]
        assert found.cost.value == pytest.approx(min(costs))
        assert population_cost(found.threshold, missed, false_alarm) == pytest.approx(min(costs))
    assert cheapest(rows, missed=1, false_alarm=1000).threshold == NOBODY
    assert cheapest(rows, missed=1000, false_alarm=1).threshold == 0


def test_too_few_rows_say_nothing() -> None:
    """Counts that do not stand out from the noise give no curve and no cost."""
    rows = rows_at_points("yes", np.full(len(POINTS), 1.0), np.full(len(POINTS), 1.0), noise_variance(50))
    assert curve(rows)[["recall", "precision"]].isna().all(axis=None)
    assert np.isnan(cheapest(rows, missed=5, false_alarm=1).cost.value)


def test_a_long_curve_is_shown_at_twentieths() -> None:
    """What is shown at 0.35 is what holds for a threshold of 0.35; a curve of few points is shown whole."""
    cells = np.zeros((STEPS + 1, 2))
    cells[::7, 0], cells[::5, 1] = 1, 2
    points = shown_points(curve(rows_on_grid("yes", cells)))
    assert points["threshold"].tolist() == [step / 20 for step in range(1, 20)]
    line = points[points["threshold"] == 0.35].iloc[0]
    assert line["recall"] == pytest.approx(cells[3500:, 0].sum() / cells[:, 0].sum())
    short = curve(rows_at_points("yes", POSITIVES, NEGATIVES, 1e-3))
    assert len(shown_points(short)) == len(POINTS)


def evaluation(*rows: RowsByProbability) -> Evaluation:
    """Return an evaluation with these counts."""
    confusion = pd.DataFrame(np.ones((2, 2), int), index=["no", "yes"], columns=["no", "yes"])
    return Evaluation("m", "t", 100, 0.8, 0.6, confusion, auc=0.7, rows_by_probability=rows)


def test_curves_are_drawn_with_bands_where_there_is_noise(tmp_path: Path) -> None:
    """Both curves are in one picture, which names the class and the AUC; noisy ones have a band."""
    plain = rows_at_points("yes", POSITIVES * 1000, NEGATIVES * 1000, 0.0)
    curve_plot(evaluation(plain), tmp_path / "plain.svg")
    curve_plot(evaluation(noisy_rows(2000, 1)), tmp_path / "noisy.svg")
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("plain.svg", "noisy.svg")]
    assert all("ROC, AUC 0.700" in text and "precision and recall" in text and "yes" in text for text in texts)
    assert ["PolyCollection" in text or "FillBetween" in text for text in texts] == [False, True]


def test_without_counts_there_is_no_curve(tmp_path: Path) -> None:
    """Figures that were made without them, and more than two classes on private rows: the error says what there is."""
    with pytest.raises(UsageError, match="without the counts that a curve needs"):
        curve_plot(evaluation(), tmp_path / "none.svg")
    with pytest.raises(UsageError, match="no curve of a model of 3 classes"):
        check_curves(3, private=True)
    check_curves(3, private=False)
    assert not (tmp_path / "none.svg").exists()
    assert evaluation().curve.empty
    with pytest.raises(UsageError, match="counts that a cost needs"):
        evaluation().cheapest({"yes": 2})
