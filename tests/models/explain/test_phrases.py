"""Cells in words: numbers, categories, booleans, wide categories, what stands for NULL."""

from __future__ import annotations

import pytest

from dpsql.models.explain.phrases import edge_text, phrase, runs, short_phrase
from dpsql.schema import Boolean, Categorical, Feature, Numeric

AGE = Numeric("age", 0, 64)
GAIN = Numeric("gain", 0, 100_000)
KIN = Categorical("kin", ("Husband", "Wife", "Child", "Other"))
WIDE = Categorical("zip", tuple(f"z{number}" for number in range(200)))

CASES: list[tuple[Feature, list[int], str]] = [
    (AGE, list(range(35, 60)), "age 35 to 60"),
    (AGE, list(range(10)), "age < 10"),
    (AGE, list(range(50, 64)), "age ≥ 50"),
    (AGE, [0, 1, 2, 62, 63], "age < 3 or ≥ 62"),
    (AGE, list(range(64)), "age of any size"),
    (GAIN, list(range(3, 64)), "gain ≥ 4688"),
    (Numeric("share", 0, 1, cells=8), [2, 3], "share 0.25 to 0.5"),
    (Numeric("mass", -1e-12, 1e-12), [32], "mass 0 to 3.125e-14"),
    (Numeric("cold", -64, 0), [0], "cold < -63"),
    (KIN, [0, 1], "kin is Husband or Wife"),
    (KIN, [1, 0], "kin is Wife or Husband"),
    (KIN, [0, 1, 2], "kin is Husband, Wife or Child"),
    (KIN, [4], "kin is unknown or NULL"),
    (KIN, [2, 4], "kin is Child, unknown or NULL"),
    (Categorical("kin", ("a", "b"), null="a"), [2], "kin is unknown"),
    (Categorical("kin", ("a", "b"), unknown="a"), [2], "kin is NULL"),
    (Boolean("ill"), [1], "ill is true"),
    (Boolean("ill"), [0, 2], "ill is false, unknown or NULL"),
    (WIDE, [150], "zip is z150"),
    (WIDE, list(range(64, 128)), "zip is z64, z65, z66 or 61 more"),
    (WIDE, [*range(3), *range(5, 201)], "zip is not z3 or z4"),
]


@pytest.mark.parametrize(("feature", "cells", "words"), CASES, ids=[case[2] for case in CASES])
def test_cells_in_words(feature: Feature, cells: list[int], words: str) -> None:
    """Each set of cells has its words."""
    assert phrase(feature, cells) == words


def test_short_words_leave_out_the_name() -> None:
    """On an axis that bears the feature's name the condition stands alone."""
    assert short_phrase(AGE, range(10)) == "< 10"
    assert short_phrase(KIN, [0, 1]) == "Husband or Wife"


def test_the_words_of_a_number_fit_its_cells() -> None:
    """A number that an edge's text names falls on the edge's side or within a tenth of a cell of it."""
    for feature in (Numeric("a", 0, 80), Numeric("b", -3, 11), GAIN, Numeric("c", 0.001, 0.002)):
        for cell in range(1, feature.cells):
            assert abs(float(edge_text(feature, cell)) - feature.edges[cell - 1]) <= 0.11 / feature.scale


def test_runs_are_whole() -> None:
    """Runs of neighbours give back the cells they came from."""
    cells = [0, 1, 4, 6, 7, 8]
    assert [cell for first, last in runs(cells) for cell in range(first, last + 1)] == cells
