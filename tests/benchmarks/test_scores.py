"""Tests of the figures that predicted shares are judged by, with scikit-learn as oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples.benchmarks.scores import auc, brier, log_loss, scores

METRICS = pytest.importorskip("sklearn.metrics")


def drawn(classes: int, *, seed: int, ties: bool = False) -> tuple[Any, Any]:
    """Return random labels of so many classes and shares that lean towards them."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, classes, 200)
    shares = generator.dirichlet(np.ones(classes), 200) + 0.3 * np.eye(classes)[truth]
    shares = shares / shares.sum(axis=1, keepdims=True)
    if not ties:
        return truth, shares
    rounded = np.round(shares, 1) + 0.01
    return truth, rounded / rounded.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_two_classes_are_scored_as_scikit_learn_does(seed: int, ties: bool) -> None:
    """AUC and Brier score are those of the second class."""
    truth, shares = drawn(2, seed=seed, ties=ties)
    found = scores(truth, shares)
    assert found.auc == pytest.approx(METRICS.roc_auc_score(truth, shares[:, 1]))
    assert found.brier == pytest.approx(METRICS.brier_score_loss(truth, shares[:, 1]))
    assert found.log_loss == pytest.approx(METRICS.log_loss(truth, shares))
    assert found.balanced_accuracy == pytest.approx(METRICS.balanced_accuracy_score(truth, shares.argmax(axis=1)))
    assert found.accuracy == pytest.approx(METRICS.accuracy_score(truth, shares.argmax(axis=1)))


@pytest.mark.parametrize("classes", [3, 7])
def test_more_classes_are_scored_as_scikit_learn_does(classes: int) -> None:
    """The AUC is the mean of each class against all others; the Brier score sums over classes."""
    truth, shares = drawn(classes, seed=5)
    assert auc(truth, shares) == pytest.approx(METRICS.roc_auc_score(truth, shares, multi_class="ovr"))
    assert log_loss(truth, shares) == pytest.approx(METRICS.log_loss(truth, shares))
    assert brier(truth, shares) == pytest.approx(((shares - np.eye(classes)[truth]) ** 2).sum(axis=1).mean())


def test_a_class_without_rows_is_left_out() -> None:
    """Balanced accuracy and AUC are means over the classes that occur."""
    truth, shares = np.array([0, 0, 1, 1]), np.array([[3, 1, 0], [1, 3, 0], [1, 3, 0], [1, 3, 0]]) / 4
    found = scores(truth, shares)
    assert (found.balanced_accuracy, found.majority, found.auc) == (0.75, 0.5, 0.75)


def test_the_auc_of_one_class_is_not_known() -> None:
    """There is nobody to compare with."""
    assert scores(np.array([0, 0]), np.array([[0.5, 0.5], [1, 0]])).auc is None


def test_no_rows_have_no_scores() -> None:
    """Everything is None."""
    assert set(vars(scores(np.array([], int), np.empty((0, 2)))).values()) == {None}


def test_a_share_of_zero_is_not_infinitely_wrong() -> None:
    """A row that was given no chance costs what scikit-learn says."""
    theirs = METRICS.log_loss([1, 0], [[1.0, 0.0], [1.0, 0.0]])
    assert log_loss(np.array([1, 0]), np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(theirs)
