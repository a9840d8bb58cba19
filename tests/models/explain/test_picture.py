"""The picture: it is drawn without warnings whatever the model, long names are cut, nothing is overwritten."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from dpsql.errors import ParameterError, UsageError
from dpsql.models.explain import Learned
from dpsql.models.explain.picture import explanation_figure
from dpsql.schema import Categorical, Numeric, Schema, Target
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.models.explain.made import naive_bayes
from tests.models.explain.test_class_profiles import PEOPLE, people
from tests.tables import model_of, voting

ODD = Categorical("costs in $_{x}$ \x07", tuple(f"a very long value of a category, number {k} $" for k in range(90)))


@pytest.fixture(scope="module")
def learned() -> Learned:
    """Explain a model with facts."""
    return naive_bayes(PEOPLE, people(3000), scale=20).explain()


def random_model(schema: Schema) -> Learned:
    """Explain a random forest over a schema."""
    forest = random_forest(axes(schema), trees=4, depth=3, seed=2)
    votes = voting(forest, schema.leaf_values, most=9, seed=2)
    return model_of(VotingForest(forest, votes.weights + 1), schema).explain()


def panels(figure: Any) -> dict[str, Any]:
    """Return the panels that show something, by their titles."""
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.axison}


def test_a_picture_is_a_png_file(learned: Learned, tmp_path: Path) -> None:
    """The file can be read as an image, and something is drawn on it."""
    file = tmp_path / "m.png"
    learned.plot(file)
    image = imread(file)
    assert image.shape[1] > 1000
    assert np.ptp(image) > 0.5


def test_bars_have_the_importance(learned: Learned) -> None:
    """The first panel has a bar for each feature, as long as its importance in percent."""
    bars = panels(explanation_figure(learned))["What predictions depend on"].patches
    assert [bar.get_width() for bar in bars] == pytest.approx([100 * one for one in learned.importance])


def test_each_important_feature_has_a_panel(learned: Learned) -> None:
    """`top` features have a panel each."""
    assert list(panels(explanation_figure(learned, top=3)))[1:] == list(learned.importance.index[:3])


@pytest.mark.parametrize(
    "schema",
    [
        Schema("y", tuple("abcdefghij"), (Numeric("x", 0, 1), ODD)),
        Schema("y", (), (Numeric("x", 0, 1), ODD), target=Target(0, 10)),
        Schema("y", ("a", "b"), (ODD,)),
    ],
    ids=["classes", "number", "one feature"],
)
def test_odd_models_are_drawn(schema: Schema, tmp_path: Path) -> None:
    """Many classes, a number, one feature, long names with dollar signs: matplotlib has nothing to warn of."""
    random_model(schema).plot(tmp_path / "odd.png")
    assert (tmp_path / "odd.png").stat().st_size > 5000


def test_long_names_are_cut() -> None:
    """No tick has more than 25 characters."""
    figure = explanation_figure(random_model(Schema("y", ("a", "b"), (Numeric("x", 0, 1), ODD))))
    ticks = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert max(map(len, ticks)) <= 25


def test_a_model_that_predicts_one_thing_is_drawn(tmp_path: Path) -> None:
    """A forest of single leaves has no panel and no length of bars."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1),))
    bare = VotingForest.majority(Forest(axes(schema), 2, ()), np.array([0, 1]), 2)
    model_of(bare, schema).explain().plot(tmp_path / "bare.png")
    assert (tmp_path / "bare.png").exists()


def test_a_file_that_exists_stays(learned: Learned, tmp_path: Path) -> None:
    """Nothing is overwritten, and another kind of file is refused."""
    file = tmp_path / "m.png"
    file.write_text("mine")
    with pytest.raises(ParameterError, match="this one exists"):
        learned.plot(file)
    assert file.read_text() == "mine"
    with pytest.raises(ParameterError, match="ends in .png"):
        learned.plot(tmp_path / "m.pdf")
    with pytest.raises(ParameterError, match="can be written"):
        learned.plot(tmp_path / "nowhere" / "m.png")


def test_missing_matplotlib_names_the_way_to_install_it(
    learned: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without matplotlib the error says what to install."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    with pytest.raises(UsageError, match="matplotlib") as caught:
        learned.plot(tmp_path / "m.png")
    assert caught.value.hint == "pip install 'dpsql[plots]'"
