"""The command `objectives`: a figure for each objective, on tables whose rarer class was thinned."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from dpsql.errors import ParameterError
from examples.benchmarks.objectives import objectives, thin
from examples.benchmarks.splits import Table


def two_classes() -> Table:
    """Return a table of 900 rows of one class and 100 of the other."""
    schema = {"label": "y", "classes": ["0", "1"], "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}}}
    return Table("some", schema, pd.DataFrame({"x": 0.5, "y": [0] * 900 + [1] * 100}))


def test_the_rarer_class_is_thinned() -> None:
    """Only rows of the rarer class are left out, always the same ones, and none is made up."""
    thinned = thin(two_classes(), "0.05")
    assert thinned.frame["y"].value_counts().to_dict() == {0: 900, 1: 47}
    assert thinned.frame.equals(thin(two_classes(), "0.05").frame)
    assert thin(two_classes(), "0.4").rows == 1000


@pytest.mark.parametrize("share", ["0", "0.7", "few"])
def test_a_share_must_be_below_a_half(share: str) -> None:
    """What is no share of a rarer class is refused, with what is allowed."""
    with pytest.raises(ParameterError, match="between 0 and 0.5"):
        thin(two_classes(), share)


def test_the_command_has_a_figure_for_each_objective(tmp_path: Path) -> None:
    """One split of a made-up table: five objectives as JSON."""
    pytest.importorskip("sklearn")
    asked = ["--data", str(tmp_path), "--sets", "syn5d", "--rarer", "0.2", "--epsilon", "4", "--splits", "1", "--json"]
    done = CliRunner().invoke(objectives, asked, catch_exceptions=False)
    figures = json.loads(done.stdout)["figures"]
    assert [figure["objective"] for figure in figures] == ["usual", "accuracy", "balanced", "auc", "log-loss"]
    assert all(0.5 < figure["auc"] <= 1 for figure in figures)
