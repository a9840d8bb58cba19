"""Chooses one candidate per row, exactly: permute-and-flip and the exponential mechanism.

Utilities are a table of whole numbers: its rows are nodes or leaves, its columns are candidates. A choice depends
only on rate * gap, where gap is the best utility of the row minus that of the candidate. The rate is
epsilon / (2 * sensitivity), or epsilon / sensitivity if all utilities move the same way between neighbours
(`monotone`), as counts do when a row is added or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.bernoulli import bernoulli_exp, weighted_choice
from dpsql.mechanisms.rng import LARGEST_BOUND, Entropy, uniform_below

#: How many utilities are worked on at a time at most: memory stays bounded.
_CELLS_AT_ONCE = 2**18
#: How many proposals are drawn at a time at most: memory stays bounded.
_PROPOSALS_AT_ONCE = 2**16
#: How many proposals per candidate a row gets before it is drawn by exact inversion instead.
_PROPOSALS_PER_CANDIDATE = 8


def permute_and_flip(
    utilities: NDArray[np.integer[Any]],
    epsilon: Fraction | int,
    *,
    sensitivity: Fraction | int = 1,
    monotone: bool = False,
    entropy: Entropy = os.urandom,
) -> NDArray[np.int64]:
    """Return one column index per row, drawn by permute-and-flip.

    Args:
        utilities: 2-D array of whole numbers, private; at least one column.
        epsilon: positive, what one row pays.
        sensitivity: positive, the most one utility changes between neighbours, in utility units.
        monotone: whether between neighbours all utilities of a row rise, or all fall.
        entropy: where the bytes come from.

    Proof:
        Claim: each row is epsilon-differentially private under add/remove of one privacy unit. A unit that
        moves the utilities of several rows by d1, d2, ... pays epsilon * (d1 + d2 + ...) / sensitivity.
        Theorem: McKenna and Sheldon, "Permute-and-Flip: a new mechanism for differentially private
        selection", NeurIPS 2020. It is identical to report-noisy-max with exponential noise of scale
        1 / rate: Ding, Kifer, Saghaian, Steinke, Wang, Xiao and Zhang, "The permute-and-flip mechanism is
        identical to report-noisy-max with exponential noise", 2021. In that form the factor is easy to see: for
        fixed noise on the other candidates, a candidate wins if its own noise passes a threshold. Between
        neighbours that threshold moves by at most 2 * sensitivity, or by at most sensitivity if all utilities
        move the same way, and exponential noise costs rate for each unit by which it moves.
        Sampler: the published form visits the candidates in uniformly random order, flips a coin of chance
        exp(-rate * gap) for each, and stops at the first head. The coins do not depend on the order, so we
        flip them all; the first head in a uniformly random order is a uniformly random head. The best
        candidate has gap 0, so its coin is always a head. Ties are broken uniformly by the same rule.

    >>> permute_and_flip(np.array([[0, 10**9], [10**9, 0]]), Fraction(1))
    array([1, 0])
    """
    table = _check_utilities(utilities)
    rate = _rate(epsilon, sensitivity, monotone)
    choices = np.empty(len(table), dtype=np.int64)
    for part in _row_parts(table.shape):
        exponents = _exponents(_gaps(table[part], table[part].max(axis=1)), rate)
        choices[part] = _uniform_heads(bernoulli_exp(exponents, rate.denominator, entropy=entropy), entropy)
    return choices


def exponential(
    utilities: NDArray[np.integer[Any]],
    epsilon: Fraction | int,
    *,
    sensitivity: Fraction | int = 1,
    monotone: bool = False,
    weights: NDArray[np.integer[Any]] | None = None,
    entropy: Entropy = os.urandom,
) -> NDArray[np.int64]:
    """Return one column index per row, drawn with probability proportional to weight * exp(rate * utility).

    Args:
        utilities: 2-D array of whole numbers, private; at least one column.
        epsilon: positive, what one row pays.
        sensitivity: positive, the most one utility changes between neighbours, in utility units.
        monotone: whether between neighbours all utilities of a row rise, or all fall.
        weights: public non-negative whole numbers (a base measure, such as interval lengths), one per
            cell or one per column; each row needs a positive one. All 1 if left out.
        entropy: where the bytes come from.

    Proof:
        Claim: each row is epsilon-differentially private under add/remove of one privacy unit. Theorem:
        McSherry and Talwar, "Mechanism design via differential privacy", FOCS 2007, Theorem 6; for
        monotone utilities the numerator and the normaliser move the same way, which saves the factor 2.
        Sampler: propose a candidate by weight, accept it with probability exp(-rate * gap), and otherwise
        propose again. A row whose proposals are refused too often is drawn by exact inversion
        (`weighted_choice`): refusals are independent of what follows, so any exact sampler may go on.

    >>> exponential(np.array([[0, 10**9, 0], [90, 0, 90]]), Fraction(1), weights=np.array([1, 1, 0]))
    array([1, 0])
    """
    table = _check_utilities(utilities)
    rate = _rate(epsilon, sensitivity, monotone)
    measure = None if weights is None else _check_weights(weights, table.shape)
    choices = np.empty(len(table), dtype=np.int64)
    for part in _row_parts(table.shape, largest=1 if measure is None else int(measure.max(initial=1))):
        choices[part] = _weighted_rows(table[part], rate, None if measure is None else measure[part], entropy)
    return choices


def _rate(epsilon: Fraction | int, sensitivity: Fraction | int, monotone: bool) -> Fraction:
    """Return the rate: what a utility gap of 1 adds to the exponent."""
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if isinstance(value, bool) or not isinstance(value, (Fraction, int)):
            raise TypeError(f"{name} must be a Fraction or an int: floating point is not exact")
        if value <= 0:
            raise ValueError(f"{name} must be positive")
    return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)


def _check_utilities(utilities: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the utilities as a 2-D int64 array, or raise an error that shows no value."""
    table = np.asarray(utilities)
    if table.ndim != 2:
        raise ValueError("utilities must have two dimensions: rows and candidates")
    if table.shape[0] and not table.shape[1]:
        raise ValueError("utilities must have at least one candidate per row")
    return _as_int64(table, "utilities")


def _check_weights(weights: NDArray[np.integer[Any]], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return one weight for each cell, or raise an error if weights are negative or a row has none above 0."""
    measure = np.broadcast_to(_as_int64(np.asarray(weights), "weights"), shape)
    if measure.size and int(measure.min()) < 0:
        raise ValueError("weights must not be negative")
    if not measure.any(axis=1).all():
        raise ValueError("each row needs a candidate of positive weight")
    return measure


def _as_int64(numbers: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return whole numbers as int64, or raise an error that shows no value."""
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers")
    if numbers.dtype == np.uint64 and numbers.size and int(numbers.max()) >= 2**63:
        raise ValueError(f"{name} must fit in 64 bits with sign")
    return numbers.astype(np.int64, copy=False)


def _row_parts(shape: tuple[int, ...], *, largest: int = 1) -> Iterator[slice]:
    """Yield slices of rows with a bounded number of cells, whose weights add up to less than 2**63."""
    cells = min(_CELLS_AT_ONCE, (LARGEST_BOUND - 1) // largest)
    step = max(1, cells // max(1, shape[1]))
    return (slice(start, start + step) for start in range(0, shape[0], step))


def _gaps(table: NDArray[np.int64], best: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return best - utility, exact for all int64: subtraction modulo 2**64 of a gap below 2**64."""
    return best.view(np.uint64)[:, None] - np.ascontiguousarray(table).view(np.uint64)


def _exponents(gaps: NDArray[np.uint64], rate: Fraction) -> NDArray[Any]:
    """Return gaps times the numerator of the rate, as int64, or as Python integers where 64 bits are too few."""
    if int(gaps.max(initial=0)) * rate.numerator < 2**63:
        # With all gaps 0 the numerator may be too large for int64, and does not matter.
        return gaps.astype(np.int64) * min(rate.numerator, 2**63 - 1)
    return gaps.astype(object) * rate.numerator


def _uniform_heads(heads: NDArray[np.bool_], entropy: Entropy) -> NDArray[np.int64]:
    """Return for each row the column of one of its heads, drawn uniformly; every row has at least one head."""
    per_row = np.count_nonzero(heads, axis=1)
    places = np.flatnonzero(heads)
    drawn = np.cumsum(per_row) - per_row + uniform_below(per_row, entropy=entropy)
    return _as_int64(places[drawn] % heads.shape[1], "columns")


def _weighted_rows(
    table: NDArray[np.int64], rate: Fraction, measure: NDArray[np.int64] | None, entropy: Entropy
) -> NDArray[np.int64]:
    """Return one choice per row: by rejection sampling, and by exact inversion for the rows that remain."""
    usable = table if measure is None else np.where(measure > 0, table, np.iinfo(np.int64).min)
    gaps = _gaps(table, usable.max(axis=1))
    if measure is not None:
        gaps[measure == 0] = 0
    exponents = _exponents(gaps, rate)
    choices = np.empty(len(table), dtype=np.int64)
    for row in _reject(choices, exponents, rate.denominator, measure, entropy):
        weights = [1] * table.shape[1] if measure is None else measure[row].tolist()
        choices[row] = weighted_choice(exponents[row].tolist(), rate.denominator, weights, entropy=entropy)
    return choices


def _reject(
    choices: NDArray[np.int64],
    exponents: NDArray[Any],
    denominator: int,
    measure: NDArray[np.int64] | None,
    entropy: Entropy,
) -> NDArray[np.int64]:
    """Fill `choices` by rejection sampling, and return the rows for which no proposal was accepted in time."""
    rows, columns = exponents.shape
    pending, tried = np.arange(rows), 0
    if measure is not None and int(measure.max()) * measure.size >= LARGEST_BOUND:
        return pending
    ends = None if measure is None else measure.cumsum()
    while pending.size and tried < _PROPOSALS_PER_CANDIDATE * columns:
        tries = min(columns, max(1, _PROPOSALS_AT_ONCE // pending.size))
        proposals = _proposals(np.repeat(pending, tries), columns, ends, entropy).reshape(-1, tries)
        heads = bernoulli_exp(exponents[pending[:, None], proposals], denominator, entropy=entropy)
        first, accepted = heads.argmax(axis=1), heads.any(axis=1)
        choices[pending[accepted]] = proposals[accepted, first[accepted]]
        pending, tried = pending[~accepted], tried + tries
    return pending


def _proposals(
    rows: NDArray[np.int64], columns: int, ends: NDArray[np.int64] | None, entropy: Entropy
) -> NDArray[np.int64]:
    """Return one column for each listed row: uniform, or by weight if `ends` has the running sums of all weights."""
    if ends is None:
        return uniform_below(columns, rows.size, entropy=entropy)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])[rows * columns]
    totals = ends[rows * columns + columns - 1] - starts
    drawn: NDArray[np.int64] = starts + uniform_below(totals, entropy=entropy)
    return np.searchsorted(ends, drawn, side="right") - rows * columns
