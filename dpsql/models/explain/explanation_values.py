"""What `model.explain()` returns: plain frozen values that can be shown as text, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpsql.models.explain.crowded import CrowdedRange
from dpsql.models.explain.explanation_text import TOP, explanation_text
from dpsql.models.explain.picture import PANELS, draw_explanation
from dpsql.notebook_html import Readable, html_heading, html_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Group:
    """Values of one feature that are taken together: their text, their cells, and their share of the rows (0 to 1).

    `values` has the share of each class among these rows, or the predicted number; `errors` has the standard errors
    from noise and chance, where they are known. `low` and `high` are the ends of a number's range.
    """

    text: str
    cells: tuple[int, ...]
    mass: float
    values: tuple[float, ...]
    errors: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Effect:
    """One feature: its importance (0 to 1, all features sum to 1), and the groups of its values.

    `read` says whether any tree looks at it. `drowned` says that it was counted and none of its groups stood out from
    the noise. `counted` says that groups have released counts; otherwise they have what the model predicts. `unit` is
    what the ends of a date's groups are counted in, since 1970-01-01 00:00 UTC; "" for other features.
    """

    feature: str
    importance: float
    groups: tuple[Group, ...]
    read: bool = True
    drowned: bool = False
    counted: bool = False
    unit: str = ""

    @property
    def note(self) -> str:
        """A few words of warning about the feature; empty where there is nothing to say."""
        if not self.read:
            return "read by no tree"
        return "drowned in noise" if self.drowned else ""


@dataclass(frozen=True)
class Reason:
    """Values of one feature that speak for a class, in words.

    `effect` is how many times as frequent they are in the class as in the whole table (of a number: how far the
    prediction moves); `error` is its standard error, where it is known.
    """

    feature: str
    text: str
    effect: float
    error: float | None = None


@dataclass(frozen=True)
class ClassProfile:
    """A class, its share of the rows (0 to 1), and what speaks for it, strongest first.

    A number has two profiles, "high" and "low"; their share is None.
    """

    name: str
    share: float | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, repr=False)
class Learned(Readable):
    """What a model learned. `str()` is a readable summary; `effects` has the most important feature first.

    `trees` counts all trees, `of_one_feature` those of them that read one feature alone. `background` says how often
    each value was taken to occur. `looked_up` says which domains the owner looked up in the private rows, "" where
    there are none. `crowded` has the numbers whose declared range is so wide that nearly all rows lie in a few of its
    cells.
    """

    model: str
    method: str
    table: str
    label: str
    classes: tuple[str, ...]
    target: str | None
    trees: int
    of_one_feature: int
    leaves: int
    epsilon: str
    neighbours: str
    private: bool
    background: str
    effects: tuple[Effect, ...]
    profiles: tuple[ClassProfile, ...]
    looked_up: str = ""
    crowded: tuple[CrowdedRange, ...] = ()

    def __str__(self) -> str:
        return explanation_text(self)

    @property
    def importance(self) -> pd.Series:
        """The importance of each feature (0 to 1), most important first."""
        return pd.Series({effect.feature: effect.importance for effect in self.effects}, name="importance", dtype=float)

    def effect(self, feature: str) -> Effect:
        """Return the effect of one feature."""
        return next(effect for effect in self.effects if effect.feature == feature)

    def profile(self, name: str) -> ClassProfile:
        """Return the profile of one class."""
        return next(profile for profile in self.profiles if profile.name == name)

    def text(self, *, top: int = TOP) -> str:
        """Return the summary as text, with the `top` most important features."""
        return explanation_text(self, top=top)

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything as plain values; keys are the names used here."""
        return asdict(self)

    def _repr_html_(self) -> str:
        title, *lines = str(self).splitlines()
        return html_heading(title) + html_lines("\n".join(lines))

    def plot(self, file: str | Path | None = None, *, top: int = PANELS, ax: Axes | None = None) -> Figure:
        """Return a picture: importance, and a panel for each of the `top` features; with `ax` importance alone, there.

        With a `file` it is also written to a new PNG file.
        """
        return draw_explanation(self, file, top=top, axes=ax)
