"""Says in words and figures what a step of a plan does, what it costs, and how large its error is likely to be.

All of it follows from the plan, which is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.kernel import noise
from dpsql.kernel.operations import NO_NOISE, OPERATIONS
from dpsql.kernel.promise import Promise
from dpsql.ledger.amount import format_epsilon
from dpsql.notebook_html import html_heading, html_table, html_text

if TYPE_CHECKING:
    from dpsql.kernel.plan import Step

#: What stands in a plan whose steps have no proof.
NOT_PRIVATE = "NOT differentially private: the published variant has no proof."


def describe_step(step: Step, promise: Promise) -> dict[str, Any]:
    """Return a step as plain values: cost, sensitivity, noise, scans, released values, expected error."""
    described: dict[str, Any] = {
        "name": step.name,
        "operation": step.operation.name,
        "epsilon": format_epsilon(step.nano_epsilon),
        "trees": step.trees,
        "rows": "every tree" if step.shared else "one tree each",
        "sensitivity": step.sensitivity(promise),
        "noise_scale": _scale_of_one_use(step, promise),
        "values": step.cells,
        "scans": step.scans,
        "expected_error": expected_error(step, promise),
        "note": step.note,
    }
    if promise.approximate is not None:
        described["rho"] = float(noise.rho(step, promise))
        described["noise"] = noise.mechanism_name(step, promise)
        if not step.operation.mechanism.chooses:
            described["deviation"] = math.sqrt(2) * described["noise_scale"]
        described["pure_noise_scale"] = _scale_of_one_use(step, replace(promise, approximate=None))
    if step.side:
        described["side"] = step.side
    if step.parts > 1:
        described["part"] = f"{step.part + 1} of {step.parts}"
    return described


def _scale_of_one_use(step: Step, promise: Promise) -> float:
    """Return the noise scale of one use of a step, if all its uses take equal parts of its epsilon."""
    return float(step.scale(promise)) * (step.uses if promise.approximate is None else math.sqrt(step.uses))


def expected_error(step: Step, promise: Promise) -> str:
    """Return in words how large the error is that noise causes in one released value."""
    if step.published:
        return "unknown: the published variant has no proof"
    approximate = promise.approximate is not None
    return step.operation.expected_error(step, _scale_of_one_use(step, promise), approximate=approximate)


def larger_noise_notes(described: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each step of a described plan whose noise would be smaller under pure epsilon."""
    return [
        f"{step['name']}: without --delta its noise would be smaller "
        f"(scale {step['pure_noise_scale']:.4g} instead of {step['noise_scale']:.4g})."
        for step in described["steps"]
        if step.get("pure_noise_scale", math.inf) < step["noise_scale"]
    ]


def loss_text(described: Mapping[str, Any], nano_epsilon: int) -> str:
    """Return in words what a described plan costs in all."""
    words = f"epsilon {format_epsilon(nano_epsilon)}"
    return f"{words}, delta {described['delta']} (rho {described['rho']})" if "rho" in described else words


def describe_plan(described: Mapping[str, Any], nano_epsilon: int) -> str:
    """Return a plan, given as plain values, as a few lines of text."""
    lines = [f"Plan of {described['method']}: {loss_text(described, nano_epsilon)} in all, {described['neighbours']}."]
    if not described["private"]:
        lines.append(NOT_PRIVATE)
    for step in described["steps"]:
        scans = "1 scan" if step["scans"] == 1 else f"{step['scans']} scans"
        lines.append(
            f"  {step['name']}: {step['operation']}, epsilon {step['epsilon']}, noise scale {step['noise_scale']:.4g}, "
            f"{step['values']} values, {scans}; {step['expected_error']}."
        )
    return "\n".join(lines)


def plan_html(described: Mapping[str, Any], nano_epsilon: int) -> str:
    """Return a plan, given as plain values, as a table for a notebook."""
    title, *_ = describe_plan(described, nano_epsilon).splitlines()
    head = ("step", "operation", "epsilon", "noise scale", "values", "scans", "expected error")
    rows = [
        (
            step["name"],
            step["operation"],
            step["epsilon"],
            f"{step['noise_scale']:.4g}",
            step["values"],
            step["scans"],
            step["expected_error"],
        )
        for step in described["steps"]
    ]
    warning = "" if described["private"] else html_text(NOT_PRIVATE)
    return html_heading(title) + warning + html_table(head, rows)


def noise_table() -> str:
    """Return the operations that answer with noise as a Markdown table, as in docs/understanding/privacy.md."""
    return _markdown(
        ("operation", "what comes out", "how far one unit moves it", "noise for ε", "noise for (ε, δ)"),
        [
            (f"`{kind.name}`", kind.answer, kind.sensitivity, kind.noise_words, kind.mechanism.approximate)
            for kind in OPERATIONS.values()
            if kind.mechanism is not NO_NOISE
        ],
    )


def exact_table() -> str:
    """Return the operations without noise of their own as a Markdown table, as in docs/understanding/privacy.md."""
    return _markdown(
        ("operation", "what comes out", "why it needs no noise"),
        [
            (f"`{kind.name}`", kind.answer, kind.why_no_noise)
            for kind in OPERATIONS.values()
            if kind.mechanism is NO_NOISE
        ],
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"
