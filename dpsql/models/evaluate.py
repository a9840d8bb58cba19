"""Measures a model on a public table, for free. A private registered table is refused: its rows are not public.

Figures come from counts and sums (`dpsql/models/figures.py`), which the database works out in one statement. The
evaluation on private rows, which is charged, is in `dpsql/runs/private_evaluation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.predict.evaluation_counts import evaluation_query
from dpsql.compile.rows import table_reference
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import DataError, ParameterError, SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import LABEL_FAMILIES, TARGET_FAMILIES
from dpsql.kernel.datasets.possible_values import unreadable_classes
from dpsql.kernel.datasets.untyped_columns import fits_families
from dpsql.models import figures
from dpsql.models.curves import COLUMNS as CURVE_COLUMNS
from dpsql.models.curves import (
    CheapestThreshold,
    RowsByProbability,
    cheapest,
    curve,
    exact,
    rows_on_grid,
    shown_points,
)
from dpsql.models.model import ReleasedModel
from dpsql.models.plot import reliability_figure
from dpsql.models.read_decision import LARGEST_WEIGHT, numbers_by_class
from dpsql.models.score import PREDICTION, public_table, scoring_query
from dpsql.notebook_html import Readable, html_heading, html_table
from dpsql.schema import category_text
from dpsql.schema.synonyms import positions_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The next step that the error offers where the table is registered.
_BUY = "a table of new rows, or --epsilon 0.5: figures from noisy counts of the registered table, charged"
#: How many labels or classes an error shows.
_MOST_LABELS = 10
#: The lower and upper end of a confidence interval.
Interval = tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Readable):
    """How a model did on the rows with a known label.

    `majority` is the share of the largest class; `confusion` has a row for each true class and a column for each
    predicted one. `f1` is the mean of `class_f1`, `auc` that of the second of two classes, or the mean of all classes,
    each against the rest. `rows_by_probability` has the counts that `curve` and `cheapest` follow from. `reliability`
    compares, in bins of predicted probability (of the second of two classes, else of the predicted class), the mean
    prediction with the observed share; `calibration_error` is their mean distance. A figure that has no value (a class
    that does not occur) is None.

    On private rows figures come from noisy counts, `intervals` has a 95 % confidence interval for each, `epsilon` is
    what the evaluation cost, and `entry` is the number of its ledger entry; accuracy and `majority` are NaN where there
    are too few rows for the noise.
    """

    model: str
    table: str
    rows: int
    accuracy: float
    majority: float
    confusion: pd.DataFrame
    balanced_accuracy: float | None = None
    f1: float | None = None
    class_f1: Mapping[str, float | None] = field(default_factory=dict)
    class_precision: Mapping[str, float | None] = field(default_factory=dict)
    class_recall: Mapping[str, float | None] = field(default_factory=dict)
    auc: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    calibration_error: float | None = None
    reliability: pd.DataFrame = field(default_factory=pd.DataFrame)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    epsilon: str | None = None
    entry: int | None = None
    rows_by_probability: tuple[RowsByProbability, ...] = field(default=(), repr=False)

    @property
    def curve(self) -> pd.DataFrame:
        """What naming a class from each threshold of its probability on does: recall, precision, lift, and more.

        Of the second of two classes, or on public rows of each class of more against the rest.
        """
        curves = [curve(rows) for rows in self.rows_by_probability]
        return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=list(CURVE_COLUMNS))

    def cheapest(self, cost: Mapping[str, float]) -> CheapestThreshold:
        """Return the threshold that costs least, where a row of a class costs `cost` (1 unless given) if it is missed.

        Only for two classes: with {"yes": 5} a "yes" that is named "no" costs 5, a "no" that is named "yes" 1.
        """
        false_alarm, missed = costs_of_classes([str(name) for name in self.confusion.columns], cost)
        if not self.rows_by_probability:
            raise UsageError("these figures were made without the counts that a cost needs.", hint="evaluate again")
        best = cheapest(self.rows_by_probability[0], missed=missed, false_alarm=false_alarm)
        if self.epsilon is not None:
            return best
        counts = self.confusion.to_numpy()  # exact, and right where both classes are as probable
        usual = missed * counts[1, 0] + false_alarm * counts[0, 1]
        return replace(best, usual=exact(float(usual / max(counts.sum(), 1))))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        figures_by_name = {
            "model": self.model,
            "table": self.table,
            "rows": self.rows,
            "accuracy": number_or_none(self.accuracy),
            "majority_class_share": number_or_none(self.majority),
            "balanced_accuracy": self.balanced_accuracy,
            "f1": self.f1,
            "class_f1": dict(self.class_f1),
            "class_precision": dict(self.class_precision),
            "class_recall": dict(self.class_recall),
            "auc": self.auc,
            "log_loss": self.log_loss,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "confusion": {str(true): row.to_dict() for true, row in self.confusion.iterrows()},
            "reliability": self.reliability.to_dict("records"),
            "curve": self._curve_lines(),
        }
        if self.epsilon is None:
            return figures_by_name
        bounds = {name: list(interval) for name, interval in self.intervals.items()}
        return figures_by_name | {"intervals": bounds, "epsilon": self.epsilon, "ledger_entry": self.entry}

    def _repr_html_(self) -> str:
        """Return the figures and the confusion table for a notebook."""
        figures_by_name = {name: value for name, value in self.to_dict().items() if isinstance(value, float)}
        rows = []
        for name, value in figures_by_name.items():
            bounds = self.intervals.get(name)
            rows.append((name, f"{value:.4g}", "" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}"))
        confusion = [(true, *row) for true, row in zip(self.confusion.index, self.confusion.to_numpy(), strict=True)]
        return (
            html_heading(self)
            + html_table(("figure", "value", "95 % interval" if self.intervals else ""), rows)
            + html_table(("true \\ predicted", *self.confusion.columns), confusion)
        )

    def plot(self, ax: Axes | None = None) -> Figure:
        """Return the reliability diagram: predicted probabilities against observed shares. `ax` is where to draw it."""
        return reliability_figure(self, ax)

    def _curve_lines(self) -> list[dict[str, Any]]:
        points = pd.concat([shown_points(curve(rows)) for rows in self.rows_by_probability] or [pd.DataFrame()])
        return [
            {str(name): number_or_none(value) if isinstance(value, float) else value for name, value in line.items()}
            for line in points.to_dict("records")
        ]

    def __str__(self) -> str:
        if np.isnan(self.accuracy):
            return (
                f"{self.model} on {self.table}: too few rows to say anything at epsilon {self.epsilon} "
                "(do its labels spell the model's classes?)"
            )
        bounds = self.intervals.get("accuracy")
        sure = "" if bounds is None else f" ({bounds[0]:.1%} to {bounds[1]:.1%})"
        about = "" if self.epsilon is None else "about "
        largest = "" if np.isnan(self.majority) else f" (always the largest class: {self.majority:.1%})"
        return f"{self.model} on {self.table}: accuracy {self.accuracy:.1%}{sure} on {about}{self.rows} rows{largest}"


@dataclass(frozen=True, repr=False)
class NumericEvaluation(Readable):
    """How a model of a numeric target did on the rows with a finite target, and how always predicting their mean would.

    `mean_rmse` is the root mean squared error of always predicting the mean of these rows' own targets; `r2` is
    1 − (rmse / mean_rmse)², 0 where the targets do not differ. Errors are in the units of the target.
    """

    model: str
    table: str
    rows: int
    rmse: float
    mae: float
    r2: float
    mean_rmse: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "model": self.model,
            "table": self.table,
            "rows": self.rows,
            "rmse": self.rmse,
            "mae": self.mae,
            "r2": self.r2,
            "mean_predictor_rmse": self.mean_rmse,
        }

    def __str__(self) -> str:
        return (
            f"{self.model} on {self.table}: RMSE {self.rmse:.4g}, MAE {self.mae:.4g}, R² {self.r2:.3f} "
            f"on {self.rows} rows (always the mean: RMSE {self.mean_rmse:.4g})"
        )


def evaluate(model: ReleasedModel, data: pd.DataFrame | str) -> Evaluation | NumericEvaluation:
    """Compare a model's labels with the true ones, on a DataFrame or a public table of its database."""
    if not isinstance(data, pd.DataFrame):
        if not isinstance(data, str):
            raise DataError(
                f"{type(data).__name__} is no rows with labels.", hint="a DataFrame with the label's column"
            )
        return _evaluate_table(model, data)
    if model.schema.label not in data.columns:
        raise UnknownName("column in the data called", model.schema.label, (str(name) for name in data.columns))
    if model.schema.target is not None:
        return _numeric_evaluation(model, "the data", data[model.schema.label], model.labels(data))
    numbers = dict[str | None, int](positions_of(model.classes, model.schema.class_synonyms).items())
    labels = _texts(data[model.schema.label])
    truth = np.array([numbers.get(label, -1) for label in labels], np.int64)
    if not (truth >= 0).any():
        raise _no_matching_label(model, "the data", sorted({label for label in labels if label is not None}))
    scores = model.scores(data)[truth >= 0]
    tally = figures.tally_rows(truth[truth >= 0], np.argmax(scores, axis=1), model.released.shares(scores))
    return _evaluation(model, "the data", tally)


def _evaluate_table(model: ReleasedModel, name: str) -> Evaluation | NumericEvaluation:
    """Return the evaluation on a public table of the model's database."""
    assert model.database is not None
    info = public_table(model.database, name, hint=_BUY)
    label = info.column(model.schema.label)
    if label is None:
        raise UnknownName(f'column in table "{info.name}" called', model.schema.label, (c.name for c in info.columns))
    families = LABEL_FAMILIES if model.schema.target is None else TARGET_FAMILIES
    if not fits_families(label, families):
        raise SchemaError(f'the label "{label.name}" is {label.type}; it must be {" or ".join(families)}.')
    for problem in unreadable_classes(label, model.schema):
        raise problem.error
    engine = model.database.engine
    if model.schema.target is not None:
        pairs = engine.frame(scoring_query(model, info, key=label.name))
        return _numeric_evaluation(model, info.name, pairs[label.name], pairs[PREDICTION].to_numpy(float))
    scored = scoring_query(model, info, key=label.name, probabilities=True, ordered=False)
    query = evaluation_query(
        scored,
        model.classes,
        engine.vocabulary,
        bins=figures.BINS,
        least=figures.LEAST_PROBABILITY,
        ladders=figures.curve_classes(len(model.classes)),
        steps=figures.STEPS,
        slack=figures.STEP_SLACK,
        synonyms=model.schema.class_synonyms,
    )
    tally = _tally_of_frame(engine.frame(query), len(model.classes))
    if not tally.rows:
        raise _no_matching_label(model, info.name, _labels_of_table(engine, info, label.name))
    return _evaluation(model, info.name, tally)


def _labels_of_table(engine: Engine, info: TableInfo, label: str) -> list[str]:
    """Return the first labels of a public table as texts, in order, one more than are shown."""
    text = exp.cast(exp.column(exp.to_identifier(label, quoted=True)), exp.DataType.Type.TEXT).as_("label")
    query = exp.select(text).distinct().from_(table_reference(info.table, info.schema)).order_by("label")
    labels = engine.frame(query.limit(_MOST_LABELS + 2))["label"]
    return sorted(str(value) for value in labels if value is not None and value == value)


def _no_matching_label(model: ReleasedModel, name: str, labels: Sequence[str]) -> SchemaError:
    """Return the error of public rows of which none has a class of the model: their labels may be shown."""
    more = ", …" if len(labels) > _MOST_LABELS else ""
    here = f"labels here: {', '.join(labels[:_MOST_LABELS])}{more}" if labels else "no row has a label"
    classes = ", ".join(model.classes[:_MOST_LABELS]) + (", …" if len(model.classes) > _MOST_LABELS else "")
    return SchemaError(
        f'no row of {name} has a class of model "{model.name}": {here}; the model\'s classes: {classes}.',
        hint=_spelling_hint(model, labels),
    )


def _spelling_hint(model: ReleasedModel, labels: Sequence[str]) -> str:
    if not labels:
        return f'name rows whose "{model.schema.label}" is known'
    label, here = exp.to_identifier(model.schema.label), labels[0]
    there = next((name for name in model.classes if name.lower() == here.lower()), model.classes[0])
    renamed = exp.Case(this=label).when(exp.Literal.string(here), exp.Literal.string(there))
    return f"spell labels as the model does, for example in a view: {renamed.sql()[:-4]} … END"


def _tally_of_frame(frame: pd.DataFrame, classes: int) -> figures.Tally:
    """Return the result of the evaluation query as the tally that `figures.tally_rows` gives for rows in memory."""
    parts = {what: frame[frame["what"] == what] for what in ("confusion", "bin", "ranks", "ladder")}
    first_keys = {what: part["one"].to_numpy(np.int64) for what, part in parts.items()}
    confusion, bins, ranks = np.zeros((classes, classes)), np.zeros((figures.BINS, 3)), np.zeros((classes, 3))
    cells = parts["confusion"]
    confusion[first_keys["confusion"], cells["other"].to_numpy(np.int64)] = cells["rows"]
    bins[first_keys["bin"]] = parts["bin"][["rows", "first_sum", "second_sum"]].to_numpy(float)
    pairs = parts["ranks"][["first_sum", "second_sum", "rows"]].to_numpy(float)
    pairs[:, 2] -= pairs[:, 1]
    ranks[first_keys["ranks"]] = pairs
    # The database gives groups in any order, and fsum does not depend on it.
    log_loss, brier = (math.fsum(cells[name]) for name in ("first_sum", "second_sum"))
    ladders = {number: np.zeros((figures.STEPS + 1, 2)) for number in figures.curve_classes(classes)}
    for number, ladder in ladders.items():
        steps = parts["ladder"][first_keys["ladder"] == number]
        hits = steps["first_sum"].to_numpy(float)
        ladder[steps["other"].to_numpy(np.int64)] = np.stack([hits, steps["rows"].to_numpy(float) - hits], axis=1)
    return figures.Tally(confusion, log_loss, brier, ranks, bins, ladders)


def _evaluation(model: ReleasedModel, name: str, tally: figures.Tally) -> Evaluation:
    """Return all figures of a classifier from the tally of its rows."""
    confusion, rows = tally.confusion, tally.rows
    f1_of_classes = figures.f1_scores(confusion)
    divisor = max(rows, 1)
    return Evaluation(
        model=model.name,
        table=name,
        rows=rows,
        accuracy=float(np.trace(confusion)) / divisor,
        majority=float(confusion.sum(axis=1).max()) / divisor,
        confusion=pd.DataFrame(confusion.astype(int), index=list(model.classes), columns=list(model.classes)),
        balanced_accuracy=number_or_none(figures.mean(figures.recalls(confusion))),
        f1=number_or_none(figures.mean(f1_of_classes)),
        class_f1=_of_classes(model, f1_of_classes),
        class_precision=_of_classes(model, figures.precisions(confusion)),
        class_recall=_of_classes(model, figures.recalls(confusion)),
        auc=number_or_none(figures.mean_auc(tally.ranks)),
        log_loss=tally.log_loss / rows if rows else None,
        brier=tally.brier / rows if rows else None,
        calibration_error=number_or_none(figures.calibration_error(tally.bins)),
        reliability=_reliability(tally.bins),
        rows_by_probability=tuple(rows_on_grid(model.classes[k], ladder) for k, ladder in tally.ladders.items()),
    )


def _of_classes(model: ReleasedModel, values: NDArray[np.float64]) -> dict[str, float | None]:
    return {label: number_or_none(value) for label, value in zip(model.classes, values, strict=True)}


def costs_of_classes(classes: Sequence[str], given: Mapping[str, float]) -> tuple[float, float]:
    """Return what a row of each of two classes costs when it is named otherwise, or say what is wrong with it.

    >>> costs_of_classes(("no", "yes"), {"yes": 5})
    (1.0, 5.0)
    """
    if len(classes) != 2:
        raise UsageError(
            f"a threshold for a cost is for two classes, and this model has {len(classes)}.",
            hint="weigh classes by what their missed rows cost: class_weight of model.predict, predict --class-weight",
        )
    first, second = numbers_by_class("cost", classes, given, least=0, most=LARGEST_WEIGHT)
    if not first + second > 0:
        raise ParameterError("cost", allowed="above 0 for at least one class", given=dict(given))
    return first, second


def number_or_none(value: float) -> float | None:
    """Return a figure as a plain number, None where it has no value."""
    return None if np.isnan(value) else float(value)


def _reliability(bins: NDArray[np.float64]) -> pd.DataFrame:
    """Return the bins that hold rows: mean predicted probability, observed share, rows."""
    filled = bins[bins[:, 0] > 0]
    shares = {"predicted": filled[:, 1] / filled[:, 0], "observed": filled[:, 2] / filled[:, 0]}
    return pd.DataFrame(shares | {"rows": filled[:, 0].astype(int)})


def _numeric_evaluation(
    model: ReleasedModel, name: str, targets: pd.Series, predicted: NDArray[np.float64]
) -> NumericEvaluation:
    """Return the errors on the rows whose target is a finite number."""
    truth = pd.to_numeric(targets, errors="coerce").to_numpy(float, na_value=np.nan)
    finite = np.isfinite(truth)
    truth, error = truth[finite], (predicted - truth)[finite]
    if len(truth) == 0:
        raise SchemaError(
            f'no row of {name} has a finite number as "{model.schema.label}", which model "{model.name}" predicts.',
            hint="name rows whose target is known",
        )
    squares, spread = float(np.mean(error**2)), float(np.var(truth))
    r2 = 1 - squares / spread if spread > 0 else 0.0
    mae = float(np.mean(np.abs(error)))
    return NumericEvaluation(model.name, name, len(truth), squares**0.5, mae, r2, spread**0.5)


def _texts(labels: pd.Series) -> list[str | None]:
    """Return labels as the texts that class names are compared with; None for a missing one."""
    values = labels.astype(object)
    return [category_text(value) for value in values.mask(values.isna(), None)]
