"""Hashed categories as plain values: the hash, what may be declared, and what comes back from a file."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.errors import SchemaError
from dpsql.kernel.border import AllowanceExceeded, rebuild_features
from dpsql.schema import Hashed, Schema, hashed_cell
from dpsql.trees.grid import axes, feature_cells


def declared(**feature: Any) -> Schema:
    """Return a schema with one hashed feature, as a file declares it."""
    return Schema.from_dict({"label": "y", "classes": ["a", "b"], "features": {"job": {"type": "hashed", **feature}}})


@given(text=st.text(), cells=st.integers(2, 63))
def test_a_cell_is_md5_of_the_text(text: str, cells: int) -> None:
    """The first 32 bits of the digest of the bytes in UTF-8, modulo the number of cells."""
    number = int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
    assert dpsql.hashed_cell(text, cells) == number % cells


def test_cells_never_change() -> None:
    """Stored models rely on these numbers."""
    words = ["", "nurse", "Nurse", "nurse ", "é", "e\u0301", "😀", "日本", "1234", None]
    assert [hashed_cell(word) for word in words] == [4, 59, 53, 23, 10, 0, 8, 29, 15, 63]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (3.0, "3"), (np.int64(-7), "-7"), (datetime.date(2026, 11, 18), "2026-11-18"), (True, "true")],
)
def test_a_value_counts_as_its_text(value: object, text: str) -> None:
    """Numbers and dates have the cell of the text that every database writes."""
    assert hashed_cell(value) == hashed_cell(text)


@pytest.mark.parametrize("value", [None, float("nan"), np.nan])
def test_what_is_missing_has_the_last_cell(value: object) -> None:
    """NULL and NaN share a cell that no text has."""
    assert hashed_cell(value, 10) == 10
    assert Hashed("job", 10).null_cell == 10


def test_a_lone_surrogate_has_a_cell() -> None:
    """A text that is no text of UTF-8 can come from a file; it must not fail."""
    assert 0 <= hashed_cell("\ud800") < 63


def test_columns_of_values_are_hashed_alike() -> None:
    """A whole column has the cells of its values."""
    values = ["a", None, "b", "a", 7, float("nan")]
    job = Hashed("job", 31)
    assert feature_cells(job, values).tolist() == [job.cell(value) for value in values]


@pytest.mark.parametrize("feature", [{}, {"cells": 63}, {"cells": 2}, {"cells": 20, "description": "free text"}])
def test_a_file_gives_back_what_was_declared(feature: dict[str, Any]) -> None:
    """No list of values is written; the default is left out."""
    schema = declared(**feature)
    assert Schema.from_dict(schema.to_dict()) == schema
    cells = feature.get("cells", 63)
    assert schema.features == (Hashed("job", cells),)
    assert schema.to_dict()["features"]["job"] == {"type": "hashed"} | ({} if cells == 63 else {"cells": cells})


def test_a_hashed_category_is_one_axis() -> None:
    """Sixty-three cells and that of NULL fill an axis; NULL gets no branch of its own."""
    (axis,) = axes(declared())
    assert (axis.cells, axis.values, axis.ordered) == (64, 63, False)


@pytest.mark.parametrize("cells", [1, 64, 0, -1, True, 5.0, "5", None])
def test_other_numbers_of_cells_are_refused(cells: object) -> None:
    """Only whole numbers from 2 to 63 are taken; to 4096 where some are listed, and by the function."""
    with pytest.raises(SchemaError, match=r"from 2 to 63 \(to 4096 where cells are listed\)"):
        declared(cells=cells)
    wide = 4097 if cells == 64 else cells
    with pytest.raises(SchemaError, match="from 2 to 4096"):
        declared(cells=wide, listed=[0, 1])
    with pytest.raises(SchemaError, match="from 2 to 4096"):
        hashed_cell("a", wide)  # type: ignore[arg-type]


def test_listed_cells_are_told_apart_and_all_others_share_one() -> None:
    """Those of the wide hash in which rows were found: values elsewhere are unknown, as NULL is."""
    job = Hashed("job", 4096, (145, 2609))
    assert job.values == ("#145", "#2609")
    assert (job.cell("nurse"), job.cell("pilot"), job.cell(None), job.null_cell) == (1, 2, 2, 2)
    (axis,) = axes(declared(cells=4096, listed=[145, 2609]))
    assert (axis.cells, axis.values) == (3, 2)


@given(texts=st.lists(st.none() | st.text(), max_size=20), numbers=st.sets(st.integers(0, 99), min_size=1, max_size=63))
def test_columns_of_values_have_the_listed_cells(texts: list[str | None], numbers: set[int]) -> None:
    """A value whose cell of the hash is listed has that cell's place; every other has the last one."""
    listed = tuple(sorted(numbers))
    job = Hashed("job", 100, listed)
    expected = [
        listed.index(number) if (number := hashed_cell(text, 100)) in numbers else len(listed) for text in texts
    ]
    assert feature_cells(job, texts).tolist() == [job.cell(text) for text in texts] == expected


def test_a_file_gives_back_the_listed_cells() -> None:
    """Numbers of cells, not values, are written."""
    schema = declared(cells=4096, listed=[0, 17, 4095])
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.to_dict()["features"]["job"] == {"type": "hashed", "cells": 4096, "listed": [0, 17, 4095]}
    assert schema.features == (Hashed("job", 4096, (0, 17, 4095)),)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ([5, 3], "ascending order"),
        ([3, 3], "ascending order"),
        ([100], "from 0 to 99"),
        ([-1], "from 0 to 99"),
        ([True], "from 0 to 99"),
        (["3"], "from 0 to 99"),
        ([[3]], "from 0 to 99"),
        ("3", "from 0 to 99"),
        (3, "from 0 to 99"),
        (None, "from 0 to 99"),
        (list(range(64)), "64 cells; 63 is the most"),
    ],
)
def test_other_lists_of_cells_are_refused(listed: object, reason: str) -> None:
    """Whole numbers of the hash's cells, each once, in order, at most as many as fill an axis."""
    with pytest.raises(SchemaError, match=reason):
        declared(cells=100, listed=listed)


@pytest.mark.parametrize("key", ["values", "null", "unknown", "lower", "salt"])
def test_other_keys_are_refused(key: str) -> None:
    """A hashed category has no values to name."""
    with pytest.raises(SchemaError, match="is not known"):
        declared(**{key: "a"})


def test_the_kernel_rebuilds_it_from_its_declaration() -> None:
    """A method that writes other names into a feature gets back the feature that was declared."""
    lying = Hashed("job", 5)
    object.__setattr__(lying, "values", ("#0",) * 70)
    object.__setattr__(lying, "null", "#1")
    assert rebuild_features((lying,)) == (Hashed("job", 5),)


def test_the_kernel_takes_no_subclass() -> None:
    """A feature that could hash by a key of its own is refused."""

    class Keyed(Hashed):
        def cell(self, value: object) -> int:
            return 0

    with pytest.raises(AllowanceExceeded):
        rebuild_features((Keyed("job"),))


@pytest.mark.parametrize("listed", [(2, 1), (5,), [5], (True,), (1.0,)])
def test_the_kernel_checks_the_list_again(listed: object) -> None:
    """A list that was changed after the feature was made is refused."""
    lying = Hashed("job", 5)
    object.__setattr__(lying, "listed", listed)
    with pytest.raises(AllowanceExceeded):
        rebuild_features((lying,))


@pytest.mark.parametrize("cells", [True, 64, 1, [5]])
def test_the_kernel_checks_the_cells_again(cells: object) -> None:
    """A number that was changed after the feature was made is refused."""
    lying = Hashed("job", 5)
    object.__setattr__(lying, "hash_cells", cells)
    with pytest.raises(AllowanceExceeded):
        rebuild_features((lying,))
