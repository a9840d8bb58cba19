"""An evaluation as text: in one line with its cost, the curve of a class as a table, the cheapest threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.cli.printing.output import print_table, say
from dpsql.models.curves import NOBODY, CheapestThreshold, curve, shown_points
from dpsql.models.evaluate import Evaluation
from dpsql.models.noisy_figures import Estimate


def evaluation_line(summary: Mapping[str, Any]) -> str:
    """Return the figures of an evaluation as a model's certificate keeps them.

    >>> figures = {"table": "t:holdout", "accuracy": 0.8, "majority_class_share": 0.7, "auc": None, "rows": 90}
    >>> evaluation_line(figures | {"intervals": {"accuracy": [0.7, 0.9]}, "epsilon": "0.1"})
    'accuracy 80.0% (70.0% to 90.0%) on "t:holdout", about 90 rows; always the largest class: 70.0%; epsilon 0.1'
    """
    bounds, where = summary.get("intervals", {}), f'on "{summary["table"]}", about {summary["rows"]} rows'
    if summary["accuracy"] is None:
        return f"too few rows to say anything {where}, at epsilon {summary['epsilon']}"
    parts = [f"accuracy {summary['accuracy']:.1%}{_interval(bounds, 'accuracy', '.1%')} {where}"]
    if summary["majority_class_share"] is not None:
        parts.append(f"always the largest class: {summary['majority_class_share']:.1%}")
    if summary["auc"] is not None:
        parts.append(f"AUC {summary['auc']:.3f}{_interval(bounds, 'auc', '.3f')}")
    return "; ".join([*parts, f"epsilon {summary['epsilon']}"])


def _interval(bounds: Mapping[str, Any], name: str, form: str) -> str:
    return f" ({bounds[name][0]:{form}} to {bounds[name][1]:{form}})" if name in bounds else ""


def cheapest_text(best: CheapestThreshold) -> str:
    """Return the cheapest threshold and what it costs beside the usual labels, in one sentence.

    >>> costs = [Estimate(value, value - 0.1, value + 0.1) for value in (0.3, 0.5, 0.6, 1.2)]
    >>> cheapest_text(CheapestThreshold("y", 0.17, *costs))
    'Cheapest: y from 0.17 on, 0.3 a row (0.2 to 0.4); labels as they are 0.5 (0.4 to 0.6), always y 0.6, never 1.2.'
    """
    if best.threshold == 0:
        way = f"{best.label} for every row"
    elif best.threshold == NOBODY:
        way = f"{best.label} for no row"
    else:
        way = f"{best.label} from {best.threshold:.4g} on"
    if best.cost.value != best.cost.value:
        return "Cheapest: too few rows to say."
    others = f"always {best.label} {best.always.value:.4g}, never {best.never.value:.4g}"
    return f"Cheapest: {way}, {_cost(best.cost, ' a row')}; labels as they are {_cost(best.usual)}, {others}."


def _cost(cost: Estimate, unit: str = "") -> str:
    ends = "" if cost.low != cost.low else f" ({cost.low:.4g} to {cost.high:.4g})"
    return f"{cost.value:.4g}{unit}{ends}"


def print_curve(measured: Evaluation) -> None:
    """Print what naming a class from each threshold on does, a table for each class that has a curve."""
    for rows in measured.rows_by_probability:
        points = shown_points(curve(rows))
        columns = ["threshold", "named", "recall", "precision", "lift", "false_positive_rate"]
        lines = []
        for point in points.to_dict("records"):
            lines.append(
                [f"{point['threshold']:.4g}", *("–" if v != v else f"{v:.3f}" for v in map(point.get, columns[1:]))]
            )
        say("")
        print_table(None, [f"{rows.label} from", *(name.replace("_", " ") for name in columns[1:])], lines)
