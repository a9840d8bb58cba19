"""Strategies: answers, transposes and sensitivity as of the matrix written out, whole numbers, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.trees.strategies.strategy import DENSE, LARGEST_ENTRY, Dense, Floats, Ints, Partition, Strategy, identity

#: Entries of all sizes, the largest among them.
WEIGHTS = st.one_of(st.integers(1, 5), st.integers(1, LARGEST_ENTRY), st.just(LARGEST_ENTRY))
ENTRIES = st.one_of(st.integers(-3, 3), st.integers(-LARGEST_ENTRY, LARGEST_ENTRY), st.just(-LARGEST_ENTRY))


def dense(strategy: Strategy) -> Ints:
    """Return the whole matrix of a strategy (questions × cells), one entry after the other."""
    written = []
    for block in strategy.blocks:
        if isinstance(block, Dense):
            written.append(block.matrix)
            continue
        rows = np.zeros((block.questions, block.cells), np.int64)
        for cell, (group, weight) in enumerate(zip(block.group.tolist(), block.weight.tolist(), strict=True)):
            rows[group, cell] = weight
        written.append(rows)
    return np.concatenate(written)


def ints(*values: int) -> Ints:
    """Return whole numbers as an array."""
    return np.array(values, np.int64)


def random_stack(seed: int, *, cells: int = 7, most: int = 9) -> Strategy:
    """Return an uneven partition, dense questions and an even partition of entries up to `most`, some negative."""
    generator = np.random.default_rng(seed)
    uneven = Partition(generator.integers(0, cells, cells), generator.integers(1, most + 1, cells))
    questions = Dense(generator.integers(-most, most + 1, (3, cells)))
    return Strategy("stack", cells, (uneven, questions, Partition.even(np.arange(cells) % 3, 2)))


@st.composite
def stacks(draw: st.DrawFn) -> Strategy:
    """Draw one to four blocks about the same cells: partitions with empty groups among them, dense rows with zeros."""
    cells = draw(st.integers(1, 9))
    blocks: list[Partition | Dense] = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            group = draw(st.lists(st.integers(0, cells), min_size=cells, max_size=cells))
            weight = draw(st.lists(WEIGHTS, min_size=cells, max_size=cells))
            blocks.append(Partition(ints(*group), ints(*weight)))
        else:
            row = st.lists(ENTRIES, min_size=cells, max_size=cells)
            rows = draw(st.lists(row, min_size=1, max_size=4).filter(lambda rows: any(map(any, rows))))
            blocks.append(Dense(np.array(rows, np.int64)))
    return Strategy("drawn", cells, tuple(blocks))


@given(strategy=stacks())
def test_the_sensitivity_is_the_largest_column_sum(strategy: Strategy) -> None:
    """What one row adds to all answers together, worked out with Python's whole numbers, negative entries too."""
    columns = [sum(abs(entry) for entry in column) for column in dense(strategy).T.tolist()]
    assert strategy.sensitivity == max(columns)


@given(strategy=stacks())
def test_one_row_more_changes_answers_by_at_most_the_sensitivity(strategy: Strategy) -> None:
    """Each cell's row moves the answers by its column in L1, and one of them by as much as the sensitivity says."""
    counts = np.arange(strategy.cells)[:, None] * 3
    before = strategy.answer(counts)
    moved = [
        int(np.abs(strategy.answer(counts + (np.arange(strategy.cells) == cell)[:, None]) - before).sum())
        for cell in range(strategy.cells)
    ]
    assert max(moved) == strategy.sensitivity


@given(strategy=stacks(), seed=st.integers(0, 2**32))
def test_whole_numbers_stay_whole(strategy: Strategy, seed: int) -> None:
    """Counts of thousands of millions of rows are answered to the last digit, as Python's whole numbers are."""
    counts = np.random.default_rng(seed).integers(0, 2**36, (strategy.cells, 3))
    found = strategy.answer(counts)
    assert found.dtype == np.int64
    assert found.tolist() == (dense(strategy).astype(object) @ counts.astype(object)).tolist()


@settings(max_examples=50)
@given(strategy=stacks(), seed=st.integers(0, 2**32))
def test_answers_and_transposes_are_those_of_the_matrix(strategy: Strategy, seed: int) -> None:
    """`answer`, `back` and `normal` are products with the matrix, its transpose, and both."""
    generator, matrix = np.random.default_rng(seed), dense(strategy).astype(np.float64)
    values: Floats = generator.normal(size=(strategy.cells, 4))
    answers: Floats = generator.normal(size=(strategy.questions, 4))
    assert matrix.shape == (strategy.questions, strategy.cells)
    far = float(np.abs(matrix).max())
    np.testing.assert_allclose(strategy.answer(values), matrix @ values, rtol=1e-9, atol=1e-9 * far)
    np.testing.assert_allclose(strategy.back(answers), matrix.T @ answers, rtol=1e-9, atol=1e-9 * far)
    np.testing.assert_allclose(strategy.normal(values), matrix.T @ (matrix @ values), rtol=1e-9, atol=1e-9 * far**2)


def test_the_identity_asks_for_every_cell() -> None:
    """Its matrix is the unit matrix, and one row moves one answer by 1."""
    assert dense(identity(5)).tolist() == np.eye(5, dtype=int).tolist()
    assert (identity(5).sensitivity, identity(5).questions, identity(5).name) == (1, 5, "identity")


def test_a_group_without_cells_is_answered_with_nothing() -> None:
    """Groups are numbered up to the last one; those that no cell is in are questions whose answer is 0."""
    strategy = Strategy("gap", 2, (Partition(ints(0, 3), ints(2, 5)),))
    assert strategy.answer(np.array([[10], [1]])).ravel().tolist() == [20, 0, 0, 5]


EVEN = Partition.even(np.arange(4), 1)
WIDTHS: dict[str, tuple[Partition | Dense, ...]] = {
    "fewer cells": (Partition.even(np.arange(3), 1),),
    "more cells": (Dense(np.ones((1, 5), np.int64)),),
    "one block of two": (EVEN, Partition.even(np.arange(3), 1)),
}


@pytest.mark.parametrize("blocks", WIDTHS.values(), ids=WIDTHS)
def test_other_widths_are_refused(blocks: tuple[Partition | Dense, ...]) -> None:
    """Every block is about the same number of cells."""
    with pytest.raises(ParameterError, match="4 cells"):
        Strategy("wrong", 4, blocks)


ODD: dict[str, Partition | Dense] = {
    "float groups": Partition(np.arange(4.0), np.ones(4, np.int64)),  # type: ignore[arg-type]
    "groups below 0": Partition(np.arange(4) - 1, np.ones(4, np.int64)),
    "too few weights": Partition(np.arange(4), np.ones(1, np.int64)),
    "float weights": Partition(np.arange(4), np.full(4, 1.5)),
    "whole floats": Partition(np.arange(4), np.ones(4)),  # type: ignore[arg-type]
    "float entries": Dense(np.full((2, 4), 0.5)),
    "32 bits": Dense(np.ones((2, 4), np.int32)),
    "large weight": Partition.even(np.arange(4), LARGEST_ENTRY + 1),
    "large entry": Dense(ints(1, 1, 1, LARGEST_ENTRY + 1)[None, :]),
    "large negative entry": Dense(ints(1, 1, 1, -LARGEST_ENTRY - 1)[None, :]),
    "a zero weight": Partition(np.arange(4), ints(1, 1, 0, 1)),
    "zero weights": Partition.even(np.arange(4), 0),
    "zero entries": Dense(np.zeros((2, 4), np.int64)),
    "a negative weight": Partition(np.arange(4), ints(1, 1, -1, 1)),
}


@pytest.mark.parametrize("block", ODD.values(), ids=ODD)
def test_other_entries_are_refused(block: Partition | Dense) -> None:
    """Entries are whole numbers within bounds; a partition's are above 0, a dense block has at least one."""
    with pytest.raises(ParameterError, match="whole numbers"):
        Strategy("wrong", 4, (EVEN, block))


def test_there_is_at_least_one_block() -> None:
    """No question is no strategy."""
    with pytest.raises(ParameterError):
        Strategy("wrong", 4, ())


def test_the_smallest_whole_number_is_no_entry() -> None:
    """Its absolute value is itself, below 0: a sensitivity worked out with it would be far too small."""
    with pytest.raises(ParameterError, match="whole numbers"):
        Strategy("wrong", 2, (Dense(ints(1, -(2**63))[None, :]),))


def test_nobody_can_change_a_strategy_after_its_sensitivity_is_known() -> None:
    """Arrays are copies that cannot be written to: neither the block's own nor the one it was made of."""
    weight, matrix = ints(1, 1), ints(1, 2)[None, :]
    strategy = Strategy("both", 2, (Partition(np.arange(2), weight), Dense(matrix)))
    known = strategy.sensitivity
    weight[:], matrix[:] = 100, 100
    for block in strategy.blocks:
        array = block.weight if isinstance(block, Partition) else block.matrix
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 100
    assert strategy.sensitivity == known == np.sum([one.column_sums for one in strategy.blocks], axis=0).max() == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_entry_is_allowed(sign: int) -> None:
    """The bound itself is within bounds, either way."""
    strategy = Strategy("large", 4, (Dense(ints(0, 0, 0, sign * LARGEST_ENTRY)[None, :]),))
    assert strategy.sensitivity == LARGEST_ENTRY


def test_a_dense_block_of_too_many_entries_is_refused() -> None:
    """A matrix of more entries than are ever held is no block."""
    one: Ints = np.ones((1, 1), np.int64)
    large = Dense(np.broadcast_to(one, (DENSE // 4 + 1, 4)))
    with pytest.raises(ParameterError):
        Strategy("wrong", 4, (large,))
