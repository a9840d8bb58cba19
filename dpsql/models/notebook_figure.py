"""Makes figures that a notebook shows by themselves, whether or not matplotlib's own notebook support is loaded."""

from __future__ import annotations

import importlib.util
import io
from functools import cache
from typing import TYPE_CHECKING, Any

from dpsql.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_matplotlib() -> None:
    """Raise UsageError where matplotlib, which is optional, is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib, which is not installed.", hint="pip install 'dpsql[plots]'")


def new_figure(**options: Any) -> Figure:
    """Return an empty figure of matplotlib's; `options` are those of its `Figure`."""
    check_matplotlib()
    figure: Figure = _figure_class()(**options)
    return figure


def root_figure(axes: Any) -> Figure:
    """Return the figure that axes are part of, also where they are in a part of it."""
    figure: Figure = axes.figure.figure
    return figure


def text_as_is(text: str) -> str:
    """Return text that matplotlib takes for no formula, with a replacement for each unprintable character.

    >>> text_as_is("a$b")
    'a\\\\$b'
    """
    return "".join(c if c.isprintable() else "�" for c in text).replace("$", r"\$")


@cache
def _figure_class() -> type[Figure]:
    """Return a class of figures that know how a notebook shows them."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows as a picture."""

        def _repr_png_(self) -> bytes:
            opened = io.BytesIO()
            self.savefig(opened, format="png", dpi=90)
            return opened.getvalue()

    return NotebookFigure
