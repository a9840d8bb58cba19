"""The bench of both forms: the same counts, and seconds for each."""

from __future__ import annotations

from dpsql.bench.forms import SHAPES, measure_forms


def test_both_forms_agree_and_are_timed() -> None:
    """On a small table each forest is counted twice, with equal counts and positive times."""
    figures = measure_forms(300, repeat=1)
    assert [(figure["trees"], figure["depth"]) for figure in figures] == list(SHAPES)
    assert all(figure["equal"] and figure["one_statement"] > 0 and figure["literal"] > 0 for figure in figures)
