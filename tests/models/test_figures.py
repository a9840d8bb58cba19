"""Figures from counts equal those of scikit-learn from rows; what does not occur makes no figure fail."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dpsql.models import figures

oracle = pytest.importorskip("sklearn.metrics")

Rows = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def rows(classes: int, count: int = 500, seed: int = 1, ties: bool = False) -> Rows:
    """Return true classes, predicted ones and probabilities that know something about them."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, classes, count)
    scores = generator.normal(size=(count, classes)) + 1.2 * np.eye(classes)[truth]
    if ties:
        scores = np.round(scores)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    return truth, shares.argmax(axis=1), shares


CASES = pytest.mark.parametrize("case", [rows(2), rows(2, ties=True), rows(3), rows(7, 2000, ties=True)])


@CASES
def test_figures_of_the_confusion_table(case: Rows) -> None:
    """Accuracy, balanced accuracy and F1, macro and by class."""
    truth, predicted, shares = case
    found = figures.tally_rows(truth, predicted, shares).confusion
    assert found.tolist() == oracle.confusion_matrix(truth, predicted).tolist()
    assert figures.accuracy(found) == pytest.approx(oracle.accuracy_score(truth, predicted))
    assert figures.mean(figures.recalls(found)) == pytest.approx(oracle.balanced_accuracy_score(truth, predicted))
    assert figures.f1_scores(found) == pytest.approx(oracle.f1_score(truth, predicted, average=None))
    assert figures.mean(figures.f1_scores(found)) == pytest.approx(oracle.f1_score(truth, predicted, average="macro"))


@CASES
def test_figures_of_the_probabilities(case: Rows) -> None:
    """AUC (the second class, or each against the rest), log loss and Brier score."""
    truth, predicted, shares = case
    found = figures.tally_rows(truth, predicted, shares)
    scores = shares[:, 1] if shares.shape[1] == 2 else shares
    assert figures.mean_auc(found.ranks) == pytest.approx(oracle.roc_auc_score(truth, scores, multi_class="ovr"))
    assert found.log_loss / found.rows == pytest.approx(oracle.log_loss(truth, shares))
    squares = ((np.eye(shares.shape[1])[truth] - shares) ** 2).sum(axis=1).mean()
    brier = oracle.brier_score_loss(truth, scores) if shares.shape[1] == 2 else squares
    assert found.brier / found.rows == pytest.approx(brier)


def test_bins_are_those_of_a_calibration_curve() -> None:
    """Predicted and observed shares of each bin, and the error that they add up to."""
    calibration_curve = pytest.importorskip("sklearn.calibration").calibration_curve

    truth, predicted, shares = rows(2, 3000)
    bins = figures.tally_rows(truth, predicted, shares).bins
    observed, mean = calibration_curve(truth, shares[:, 1], n_bins=figures.BINS)
    held = bins[bins[:, 0] > 0]
    assert held[:, 1] / held[:, 0] == pytest.approx(mean)
    assert held[:, 2] / held[:, 0] == pytest.approx(observed)
    weights = held[:, 0] / held[:, 0].sum()
    assert figures.calibration_error(bins) == pytest.approx(float(weights @ np.abs(observed - mean)))


def test_bins_of_many_classes_are_of_the_predicted_one() -> None:
    """With more than two classes a bin compares confidence with accuracy."""
    truth, predicted, shares = rows(4)
    bins = figures.tally_rows(truth, predicted, shares).bins
    assert bins.sum(axis=0) == pytest.approx([len(truth), shares.max(axis=1).sum(), (truth == predicted).sum()])


def test_auc_of_binned_counts_takes_ties_as_half() -> None:
    """Counts in bins give the AUC of the bins' numbers."""
    generator = np.random.default_rng(2)
    positives, negatives = generator.integers(0, 30, (2, 20))
    truth = np.repeat([1, 0], [positives.sum(), negatives.sum()])
    score = np.concatenate([np.repeat(np.arange(20), positives), np.repeat(np.arange(20), negatives)])
    found = figures.auc(positives.astype(float), negatives.astype(float))
    assert found == pytest.approx(oracle.roc_auc_score(truth, score))


def test_a_class_that_does_not_occur_is_left_out() -> None:
    """Means are over the classes that there are; a class that is only predicted has F1 0, as in scikit-learn."""
    truth, predicted, shares = rows(4)
    held = truth != 2
    found = figures.tally_rows(truth[held], predicted[held], shares[held])
    assert np.isnan(figures.recalls(found.confusion)[2])
    assert figures.f1_scores(found.confusion)[2] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of the missing class
        wanted = oracle.balanced_accuracy_score(truth[held], predicted[held])
    assert figures.mean(figures.recalls(found.confusion)) == pytest.approx(wanted)
    each = [oracle.roc_auc_score(truth[held] == k, shares[held, k]) for k in (0, 1, 3)]
    assert figures.mean_auc(found.ranks) == pytest.approx(np.mean(each))


def test_no_rows_have_no_figures() -> None:
    """Without rows every figure is NaN, and nothing fails."""
    found = figures.tally_rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)))
    for value in (
        figures.accuracy(found.confusion),
        figures.mean(figures.recalls(found.confusion)),
        figures.mean_auc(found.ranks),
        figures.calibration_error(found.bins),
    ):
        assert np.isnan(value)


def test_an_impossible_label_has_a_finite_loss() -> None:
    """A probability of 0 for the true class counts as the least number, as in scikit-learn."""
    truth, shares = np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]])
    found = figures.tally_rows(truth, np.array([1, 1]), shares)
    assert found.log_loss / 2 == pytest.approx(oracle.log_loss(truth, shares))
