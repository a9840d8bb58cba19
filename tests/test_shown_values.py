"""What values show of themselves: repr is the readable text, and HTML escapes every name that a user chose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.models.explain.explanation_values import Learned

SCRIPT = "<script>alert(1)</script>"
SECRET = "a-private-cell"
#: What may stand between angle brackets in what is shown.
TAGS = {"p", "strong", "pre", "table", "thead", "tbody", "tr", "th", "td", "div", "style"}


@pytest.fixture(scope="module")
def values() -> Iterator[dict[str, Any]]:
    """Return every kind of value that shows itself, of a table whose names are all a script."""
    features = {
        f"age{SCRIPT}": {"type": "numeric", "lower": 0, "upper": 100},
        "town": {"type": "categorical", "values": [f"north{SCRIPT}", "south"]},
    }
    classes = [f"no{SCRIPT}", "yes"]
    schema = {"label": f"ill{SCRIPT}", "classes": classes, "features": features}
    frame = pd.DataFrame(
        {
            f"age{SCRIPT}": [float(number % 100) for number in range(400)],
            "town": [SECRET, f"north{SCRIPT}"] * 200,
            f"ill{SCRIPT}": [classes[number % 100 > 50] for number in range(400)],
        }
    )
    with dpsql.from_frame(frame, schema, cap=9, table=SCRIPT, who=SCRIPT) as db:
        db.set_cap(SCRIPT, 8, analyst=SCRIPT)
        model = db.train(SCRIPT, epsilon=2, name=SCRIPT)
        yield {
            "plan": db.plan(SCRIPT, epsilon=1),
            "budget": db.budget(SCRIPT),
            "ledger": db.ledger(SCRIPT),
            "model": model,
            "advice": db.advise(SCRIPT, epsilon=1, rows=1000),
            "evaluation": db.evaluate(model, frame),
            "charged evaluation": db.evaluate(model, SCRIPT, epsilon=1),
            "explanation": model.explain(),
            "draft": db.draft(SCRIPT, label=f"ill{SCRIPT}"),
            "SQL": db.explain(SCRIPT, epsilon=1, method="rdt"),
            "search": dpsql.search_cost(dpsql.DPForestClassifier(), cv=3),
        }


KINDS = [
    "plan",
    "budget",
    "ledger",
    "model",
    "advice",
    "evaluation",
    "charged evaluation",
    "explanation",
    "draft",
    "SQL",
    "search",
]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_escaped_in_html(values: dict[str, Any], kind: str) -> None:
    """A name that is a script stands there as text, and no tag is there that dpsql or pandas did not write."""
    page = values[kind]._repr_html_()
    assert "<script" not in page
    assert {tag.lower() for tag in re.findall(r"</?([a-zA-Z!]\w*)", page)} <= TAGS
    assert "&lt;script&gt;" in page or kind in ("search", "plan")  # which name nothing of a user's


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_shown_holds_a_cell(values: dict[str, Any], kind: str) -> None:
    """A text that stands in the rows alone is neither in the HTML nor in the text."""
    assert SECRET not in values[kind]._repr_html_() + repr(values[kind])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"ledger", "model"}))
def test_repr_is_the_readable_text(values: dict[str, Any], kind: str) -> None:
    """The prompt shows what print shows, and no dump of fields."""
    assert repr(values[kind]) == str(values[kind])
    assert "_epsilon=" not in repr(values[kind])


def test_a_budget_says_what_is_left(values: dict[str, Any]) -> None:
    """Amounts are epsilon, not nano-epsilon, and analysts with a cap are named."""
    assert repr(values["budget"]) == (f'Budget of "{SCRIPT}": 2 of 9 spent, 7 left; {SCRIPT} 2 of 8 spent, 6 left')


def test_plots_are_figures(values: dict[str, Any]) -> None:
    """A plot without a file returns a figure that knows how a notebook shows it; with axes it is drawn there."""
    figures = pytest.importorskip("matplotlib.figure")
    learned: Learned = values["explanation"]
    for plot in (learned.plot, values["evaluation"].plot, values["charged evaluation"].plot):
        own = plot()
        assert isinstance(own, figures.Figure)
        assert own._repr_png_().startswith(b"\x89PNG")
        figure = figures.Figure()
        axes = figure.subplots(1, 2)
        assert plot(ax=axes[1]) is figure
        assert axes[1].has_data()
        assert not axes[0].has_data()
