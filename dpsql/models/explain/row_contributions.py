"""Says why one row gets its label: what each of its values adds to the score, from released values alone.

Where a model adds up logs of probabilities, the score is the log-odds of the label against the runner-up, in nats.
Where it adds up votes, it is the label's share of them. For a number it is the predicted number itself.

The contributions are Shapley values (Štrumbelj & Kononenko 2010): the row is compared with each of up to `MOST_ROWS`
background rows (`background.py`). The values of a background row are replaced by the row's own, one feature after
another, and what the score changes by is the feature's. Each background row has an order of its own, from a fixed
seed, and is gone through in that order and in the reverse one; the changes are averaged. So they always add up: average
score of the background + contributions = score of the row. Where no tree reads more than two features, the
contributions to log-odds are the exact Shapley values against these rows. With deeper trees, for shares and for a
number they are an average over orders: what several features do together is shared out among them, and other orders
would share it out a little differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.errors import ParameterError, UnknownName
from dpsql.models.explain import facts as released_facts
from dpsql.models.explain.background import background, shuffled_orders
from dpsql.models.model import ReleasedModel
from dpsql.schema import Feature
from dpsql.trees.estimate.means import predicted_numbers
from dpsql.trees.forest import PASS, Ints

Reals = NDArray[np.float64]
#: The most background rows that a row is compared with.
MOST_ROWS = 128
#: About how many steps from node to node may be taken: about a second.
_STEPS = 2**24
#: The fewest background rows, however large the forest is.
_LEAST_ROWS = 4
#: The contributions that are shown one by one, unless the caller asks for more.
TOP_VALUES = 10


@dataclass(frozen=True)
class Contribution:
    """One feature of the row: its value as text, and what it adds to the score."""

    feature: str
    value: str
    effect: float


@dataclass(frozen=True)
class RowExplanation:
    """Why a row gets its label (or number). `average` plus all contributions is `score`.

    `unit` is what the score is counted in: "nats" of log-odds, "share" of the votes, or the label's own units.
    `against` is the runner-up, `probability` that of the label; both are None where the model predicts a number.
    `background` says how often values were taken to occur, and `missing` has the features that the row left out, which
    count as NULL.
    """

    model: str
    label: str
    prediction: str
    against: str | None
    probability: float | None
    unit: str
    score: float
    average: float
    contributions: tuple[Contribution, ...]
    background: str
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, *, top: int = TOP_VALUES) -> str:
        """Return the explanation as text, with the `top` largest contributions."""
        return "\n".join(_lines(self, top))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; keys are the names used here."""
        return asdict(self)


def explain_one_row(
    model: ReleasedModel, row: Mapping[str, Any] | pd.Series, rows: pd.DataFrame | None = None
) -> RowExplanation:
    """Return why a row gets its label. Reads no table, charges nothing: the row is the caller's own.

    Features that the row leaves out count as NULL. Public `rows`, if there are any, say how often values occur.
    """
    schema, released = model.schema, model.released
    frame, missing = _frame(model, row)
    cells = model.cells(frame).astype(np.int64)
    facts = released_facts.read_facts(schema, model.certificate)
    behind = background(schema, released, facts, None if rows is None else model.cells(rows))
    read = _features_read(model)
    base = behind.rows(released.forest.axes, _count(model, len(read)))
    own = released.scores(cells.astype(np.uint8))
    order = np.argsort(-own[0], kind="stable")
    average, effects = _contributions(model, cells[0], base, read, order)
    numbers = schema.target is not None
    return RowExplanation(
        model=model.name,
        label=schema.label,
        prediction=str(model.labels(frame)[0]) if not numbers else f"{float(model.labels(frame)[0]):.6g}",
        against=None if numbers else schema.classes[int(order[1])],
        probability=None if numbers else float(released.shares(own)[0, order[0]]),
        unit=schema.label if numbers else "nats" if released.nat else "share",
        score=float(_score(model, own, order)[0]),
        average=average,
        contributions=tuple(
            Contribution(feature.name, _value_text(frame, feature), effect)
            for feature, effect in sorted(zip(schema.features, effects, strict=True), key=lambda pair: -abs(pair[1]))
        ),
        background=behind.source,
        missing=missing,
    )


def _frame(model: ReleasedModel, row: Mapping[str, Any] | pd.Series) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a row as a DataFrame with every feature, and the features that it left out."""
    if not isinstance(row, Mapping | pd.Series):
        raise ParameterError("row", allowed="one row: a mapping from features to values", given=type(row).__name__)
    given, names = dict(row), [feature.name for feature in model.schema.features]
    if not any(name in given for name in names):
        raise UnknownName("feature", str(next(iter(given), "")), names, hint="a row has a value for each feature")
    columns = {name: pd.Series([given.get(name)], dtype=object) for name in names}
    return pd.DataFrame(columns), tuple(name for name in names if name not in given)


def _features_read(model: ReleasedModel) -> list[int]:
    """Return the positions of the features that some tree reads."""
    forest = model.released.forest
    places = {int(axis) for level in forest.levels for axis in np.unique(level.axis[level.axis != PASS])}
    return sorted({forest.axes[place].feature for place in places})


def _count(model: ReleasedModel, features: int) -> int:
    """Return the number of background rows for which about _STEPS steps are taken, within the bounds above."""
    forest = model.released.forest
    steps = 2 * max(1, features) * forest.trees * max(1, forest.depth)
    return int(np.clip(_STEPS // steps, _LEAST_ROWS, MOST_ROWS))


def _contributions(
    model: ReleasedModel, row: Ints, base: Ints, read: list[int], order: NDArray[np.int64]
) -> tuple[float, list[float]]:
    """Return the average score of the background and what each feature of the row adds, in the schema's order."""
    effects, turns = np.zeros(len(model.schema.features)), shuffled_orders(read, len(base))
    feature = np.array([axis.feature for axis in model.released.forest.axes])
    before = _score(model, model.released.scores(base.astype(np.uint8)), order)
    average = float(before.mean())
    for turn in (turns, turns[:, ::-1]):
        mixed, known = base.copy(), before
        for step in range(len(read)):
            mixed = np.where(feature == turn[:, step, None], row, mixed)
            score = _score(model, model.released.scores(mixed.astype(np.uint8)), order)
            np.add.at(effects, turn[:, step], (score - known) / (2 * len(base)))
            known = score
    return average, effects.tolist()


def _score(model: ReleasedModel, scores: NDArray[np.int64], order: NDArray[np.int64]) -> Reals:
    """Return what is explained: the predicted number, the label's log-odds against the runner-up, or its share."""
    if model.schema.target is not None:
        return predicted_numbers(model.schema.target, scores)
    if not model.released.nat:
        return model.released.shares(scores)[:, order[0]]
    return np.asarray((scores[:, order[0]] - scores[:, order[1]]) / model.released.nat, np.float64)


def _value_text(frame: pd.DataFrame, feature: Feature) -> str:
    value = frame[feature.name].iloc[0]
    return "NULL" if value is None or value != value else str(value)


def _lines(why: RowExplanation, top: int) -> Iterator[str]:
    change = why.score - why.average
    sign = "+" if change >= 0 else "-"
    yield _head(why)
    if why.against is None:
        yield f"{why.prediction} = {why.average:.4g} on average {sign} {abs(change):.4g} from this row's values:"
    else:
        odds = why.unit == "nats"
        score = f"Log-odds of {why.prediction} over {why.against}" if odds else f"Votes for {why.prediction}"
        yield (
            f"{score}: {_figure(why, why.score)} = {_figure(why, why.average)} "
            f"on average {sign} {_figure(why, abs(change)).lstrip('+')} from this row's values:"
        )
    shown = [each for each in why.contributions if each.effect][:top]
    for each in shown:
        yield f"  {_figure(why, each.effect):>10}  {each.feature} {each.value}"
    rest = [each.effect for each in why.contributions if each.effect][len(shown) :]
    if rest:
        yield f"  {_figure(why, sum(rest)):>10}  {len(rest)} more"
    unread = [each.feature for each in why.contributions if not each.effect]
    if unread:
        yield f"Without effect: {', '.join(unread)}"
    if why.missing:
        yield f"Not given, so NULL: {', '.join(why.missing)}"
    yield f"Average: over values as frequent as {why.background}. No private row was read."


def _head(why: RowExplanation) -> str:
    text = f'Why "{why.model}" predicts {why.label} {why.prediction}'
    return text if why.probability is None else f"{text} (probability {100 * why.probability:.1f} %)"


def _figure(why: RowExplanation, value: float) -> str:
    if why.unit == "share" and why.against is not None:
        return f"{100 * value:+.1f} %"
    return f"{value:+.2f}" if why.unit == "nats" else f"{value:+.4g}"
