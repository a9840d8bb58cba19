"""Says in words and figures what a step of a plan does, costs and is expected to get wrong. Public facts only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.kernel import noise
from dpsql.kernel.utility import GRAIN, GRAINED
from dpsql.ledger.amount import format_epsilon
from dpsql.schema import Unit

if TYPE_CHECKING:
    from dpsql.kernel.plan import Step


def describe_step(step: Step, unit: Unit) -> dict[str, Any]:
    """Return a step as plain values: cost, sensitivity, noise, scans, released values, expected error."""
    described: dict[str, Any] = {
        "name": step.name,
        "operation": step.operation,
        "epsilon": format_epsilon(step.nano_epsilon),
        "trees": step.trees,
        "rows": "every tree" if step.shared else "one tree each",
        "sensitivity": step.sensitivity(unit),
        "noise_scale": _scale(step, unit),
        "values": step.cells,
        "scans": step.scans,
        "expected_error": expected_error(step, unit),
        "note": step.note,
    }
    if unit.approximate is not None:
        described["rho"] = float(noise.rho(step, unit))
        described["noise"] = noise.name(step, unit)
        if step.operation not in noise.CHOICES:
            described["deviation"] = math.sqrt(2) * described["noise_scale"]
        described["pure_noise_scale"] = _scale(step, replace(unit, approximate=None))
    if step.side:
        described["side"] = step.side
    if step.parts > 1:
        described["part"] = f"{step.part + 1} of {step.parts}"
    return described


def _scale(step: Step, unit: Unit) -> float:
    """Return the noise scale of one use, where all uses of a step share its epsilon evenly."""
    return float(step.scale(unit)) * (step.uses if unit.approximate is None else math.sqrt(step.uses))


def expected_error(step: Step, unit: Unit) -> str:
    """Return what the noise is expected to do to one released value, in words."""
    scale = _scale(step, unit)
    if step.published:
        return "unknown: the published variant has no proof"
    if step.free:
        return "none: the features are public"
    if step.operation == "leaf_labels":
        likely = 0.05 if unit.approximate is None else 0.025  # the exponential mechanism has no half to spare
        lead = math.ceil(scale * math.log(max(1, step.classes - 1) / 2 / likely)) if step.classes > 1 else 0
        return f"a class that leads its leaf by {max(1, lead)} rows is named at least 95 times in 100"
    if step.operation == "later":
        return "known once the step before it has answered"
    if step.operation == "pick":
        return f"choices within {max(1, math.ceil(scale))} rows of the best are likely"
    if step.operation == "choose":
        rows = scale * step.width / (GRAIN if step.utility in GRAINED else 1)
        return f"choices within {max(1, math.ceil(rows))} rows of the best are likely"
    if step.operation == "leaf_sums":
        rows = scale / step.row_weight
        return f"standard deviation {2 * rows:.3g} rows per leaf, {math.sqrt(2) * rows:.3g} ranges per sum of targets"
    if step.operation == "linear":
        rows = math.sqrt(2) * scale / step.row_weight
        return f"standard deviation {rows:.3g} rows per cell if cells were asked for; less by what the strategy gains"
    return f"standard deviation {math.sqrt(2) * scale:.3g} rows per count"


def louder(described: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each step of a described plan whose noise would be smaller under pure epsilon."""
    return [
        f"{step['name']}: without --delta its noise would be smaller "
        f"(scale {step['pure_noise_scale']:.4g} instead of {step['noise_scale']:.4g})."
        for step in described["steps"]
        if step.get("pure_noise_scale", math.inf) < step["noise_scale"]
    ]


def total(described: dict[str, Any], nano_epsilon: int) -> str:
    """Return what a plan loses in all, in words."""
    words = f"epsilon {format_epsilon(nano_epsilon)}"
    return f"{words}, delta {described['delta']} (rho {described['rho']})" if "rho" in described else words


def describe_plan(described: dict[str, Any], nano_epsilon: int) -> str:
    """Return a plan, given as plain values, as a few lines of text."""
    lines = [f"Plan of {described['method']}: {total(described, nano_epsilon)} in all, {described['neighbours']}."]
    if not described["private"]:
        lines.append("NOT differentially private: the published variant has no proof.")
    for step in described["steps"]:
        scans = "1 scan" if step["scans"] == 1 else f"{step['scans']} scans"
        lines.append(
            f"  {step['name']}: {step['operation']}, epsilon {step['epsilon']}, noise scale {step['noise_scale']:.4g}, "
            f"{step['values']} values, {scans}; {step['expected_error']}."
        )
    return "\n".join(lines)
