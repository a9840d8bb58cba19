"""Intervals hold the true figure about 95 times in 100; one that leaves the noise out does not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.models import figures as metrics
from dpsql.models.noisy_figures import noise_variance, noisy_figures
from dpsql.trees.score_grid import BRIER_SCORES, LEAST_PROBABILITY, LOG_LOSSES, LOWER, POINTS, UPPER, ScoreGrid

Array = np.ndarray[Any, Any]
TIMES = 400


def population(classes: int, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return true classes, named classes and probabilities of a large population with unequal classes."""
    generator = np.random.default_rng(seed)
    prior = np.arange(1.0, classes + 1)
    truth = generator.choice(classes, count, p=prior / prior.sum())
    scores = generator.normal(size=(count, classes)) + 1.5 * np.eye(classes)[truth] + np.log(prior)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    return truth, shares.argmax(axis=1), shares


def place(values: Array, points: tuple[float, ...], chance: Array) -> Array:
    """Return the points that values count at."""
    low = np.array(points[:-1])
    return (values[:, None] >= low + chance[:, None] * np.diff(points)).sum(axis=1)


def sided(shares: Array, upper: Array, chance: Array) -> Array:
    """Return the points of probabilities in their halves."""
    return np.where(upper, len(LOWER) + place(shares, UPPER, chance), place(shares, LOWER, chance))


def counts(truth: Array, predicted: Array, shares: Array, generator: np.random.Generator) -> Array:
    """Return the exact counts of the grid, as the kernel counts them."""
    classes, chance = shares.shape[1], generator.random(len(truth))
    grid = ScoreGrid(classes)
    if classes == 2:
        cells = [truth * len(POINTS) + sided(shares[:, 1], predicted == 1, chance)]
    else:
        held, named = (shares[np.arange(len(truth)), which] for which in (truth, predicted))
        cells = [
            truth * classes + predicted,
            (truth == predicted) * len(POINTS) + sided(named, named >= 0.5, chance),
            place(-np.log(np.maximum(held, LEAST_PROBABILITY)), LOG_LOSSES, chance),
            place(1 - 2 * held + (shares**2).sum(axis=1), BRIER_SCORES, chance),
        ]
    sizes = [size for _, size in grid.histograms]
    return np.concatenate([np.bincount(cell, minlength=size) for cell, size in zip(cells, sizes, strict=True)])


def truth_of(truth: Array, predicted: Array, shares: Array) -> dict[str, float]:
    """Return the figures of rows, without any grid."""
    found = metrics.tally_rows(truth, predicted, shares)
    figures_of = {
        "accuracy": metrics.accuracy(found.confusion),
        "balanced_accuracy": metrics.mean(metrics.recalls(found.confusion)),
        "f1": metrics.mean(metrics.f1_scores(found.confusion)),
        "log_loss": found.log_loss / found.rows,
        "brier": found.brier / found.rows,
    }
    return figures_of | ({"auc": metrics.mean_auc(found.ranks)} if shares.shape[1] == 2 else {})


def coverage(classes: int, count: int, scale: float, *, told: float) -> dict[str, float]:
    """Return how often intervals for noise of scale `told` hold the population's figures, under noise of `scale`.

    Samples are drawn from the population's cells, each histogram on its own: a figure reads one of them.
    """
    everyone, generator = population(classes, 60_000, seed=5), np.random.default_rng(classes)
    wanted, cells, grid = truth_of(*everyone), counts(*everyone, generator), ScoreGrid(classes)
    shares = [grid.part(cells, name) / len(everyone[0]) for name, _ in grid.histograms]
    size, quit_chance = (TIMES, grid.cells), 1 - np.exp(-1 / scale)
    samples = np.concatenate([generator.multinomial(count, share, TIMES) for share in shares], axis=1)
    noise = generator.geometric(quit_chance, size) - generator.geometric(quit_chance, size)  # discrete Laplace
    found = [noisy_figures(one, classes, told).estimates for one in samples + noise]
    return {
        name: float(np.mean([one[name].low <= value <= one[name].high for one in found]))
        for name, value in wanted.items()
    }


@pytest.mark.parametrize(("classes", "count", "scale"), [(2, 2000, 8), (3, 4000, 12), (8, 6000, 8)])
def test_intervals_hold_the_figure(classes: int, count: int, scale: float) -> None:
    """At the right scale each figure is held at least 93 times in 100; 95 are meant."""
    found = coverage(classes, count, scale, told=scale)
    assert min(found.values()) >= 0.93, found


@pytest.mark.parametrize(("classes", "count", "scale"), [(2, 2000, 8), (3, 4000, 12), (8, 6000, 8)])
def test_intervals_without_the_noise_do_not(classes: int, count: int, scale: float) -> None:
    """The same intervals for sampling alone miss too often: the test above has power."""
    found = coverage(classes, count, scale, told=1e-3)
    assert min(found.values()) < 0.85, found


def test_intervals_are_not_far_too_wide() -> None:
    """An interval for noise twice as large holds nearly always: 95 is not reached by being vague."""
    right, wide = (coverage(2, 2000, 8, told=told) for told in (8, 16))
    assert np.mean(list(right.values())) < 0.98
    assert np.mean(list(wide.values())) > 0.98


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_without_noise_figures_are_those_of_the_rows(classes: int) -> None:
    """Counted on the grid, many rows give the figures that their probabilities give."""
    rows = population(classes, 50_000, seed=1)
    found = noisy_figures(counts(*rows, np.random.default_rng(99)), classes, 1e-3)
    for name, value in truth_of(*rows).items():
        assert found.estimates[name].value == pytest.approx(value, abs=0.003), name
    bins = metrics.tally_rows(*rows).bins
    assert found.calibration_error == pytest.approx(metrics.calibration_error(bins), abs=0.01)
    assert found.estimates["rows"].value == 50_000
    assert found.confusion.tolist() == metrics.tally_rows(*rows).confusion.tolist()


def test_decisions_are_exact_whatever_the_points() -> None:
    """Accuracy, F1 and confusion do not suffer from the points: one half lies between the halves."""
    truth = np.array([0, 1, 1, 0])
    shares = np.array([[0.501, 0.499], [0.499, 0.501], [0.501, 0.499], [0.5, 0.5]])
    found = noisy_figures(counts(truth, shares.argmax(axis=1), shares, np.random.default_rng(99)), 2, 1e-3)
    assert found.confusion.tolist() == [[2, 0], [1, 1]]


@pytest.mark.parametrize("classes", [2, 5])
def test_few_rows_under_much_noise_say_nothing(classes: int) -> None:
    """Where noise drowns the rows figures have no value, and nothing fails."""
    size = ScoreGrid(classes).cells
    found = noisy_figures(np.zeros(size, np.int64), classes, 50)
    assert all(np.isnan(one.value) for name, one in found.estimates.items() if name != "rows")
    assert len(found.reliability) == 0
    assert np.isnan(found.calibration_error)


def test_a_class_without_rows_is_left_out_of_means() -> None:
    """Balanced accuracy is over the classes that clearly have rows."""
    truth, predicted, shares = population(3, 5000, seed=3)
    held = truth != 0
    found = noisy_figures(counts(truth[held], predicted[held], shares[held], np.random.default_rng(99)), 3, 1)
    wanted = metrics.mean(metrics.recalls(metrics.tally_rows(truth[held], predicted[held], shares[held]).confusion))
    assert found.estimates["balanced_accuracy"].value == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("scale", [Fraction(3, 10), 2, 40])
def test_the_noise_varies_as_it_is_said(scale: Fraction) -> None:
    """The variance that intervals reckon with is that of the sampler."""
    drawn = discrete_laplace(scale, 200_000).astype(float)
    assert noise_variance(float(scale)) == pytest.approx(drawn.var(), rel=0.04)
