"""A charged evaluation in one line: accuracy with its interval, the largest class, AUC, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
