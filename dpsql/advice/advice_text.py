"""Advice in words: the verdict, a small table, the budget; on request a paragraph for each thing to know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.advice.outlook import AMPLE, DOUBTFUL, WASTE, Outlook
from dpsql.advice.reference_problem import INVISIBLE, VISIBLE
from dpsql.ledger import format_epsilon
from dpsql.ledger.budget import amount_text
from dpsql.models.explain.crowded import crowded_heading
from dpsql.trees.tree_count import count_text

if TYPE_CHECKING:
    from dpsql.advice.advise import Recommendation

_SIZE_WORDS = {
    "declared": "declared",
    "guessed": "your own guess",
    "bought": "bought, noisy",
}


def advice_as_text(advice: Recommendation, *, details: bool = False) -> str:
    """Return the advice as text: the verdict first, then a small table; with `details` all that follows from it."""
    now = advice.now
    if now is None:
        lines = [*_over_sizes(advice), *_crowded_lines(advice), *_budget(advice)]
        return "\n".join([*lines, _assumption(advice)] if details else lines)
    lines = [_verdict(advice, now), _title_line(advice), "", *_cases(advice, now), "", _least(advice, now)]
    lines += [*_crowded_lines(advice), *_budget(advice)]
    if details:
        paragraphs = [_method(now), _split(advice, now), _noise(advice, now), _prospects(advice, now)]
        lines += ["", *paragraphs, *_by_majority(advice), *_what_if(advice, now), _assumption(advice)]
    return "\n".join(lines)


def _cases(advice: Recommendation, now: Outlook) -> list[str]:
    """Return a table with a line for this epsilon and one for each thing that could be changed."""
    cases = [(f"epsilon {advice.epsilon}", now)]
    cases += [("twice the epsilon", advice.twice_epsilon)] if advice.twice_epsilon is not None else []
    cases += [("twice the rows", advice.twice_rows)] if advice.twice_rows is not None else []
    if advice.fewer_rows is not None:
        cases.append((f"max_rows {advice.schema.unit.max_rows // 2}", advice.fewer_rows))
    gain = "points gained" if advice.schema.classes else "variance"
    rows = [("", "trees", "depth", "rows per leaf", "noise per leaf", "signal kept", gain)]
    for name, then in cases:
        brings = f"{100 * then.gain:.1f}" if advice.schema.classes else percent_text(then.gain)
        figures = figure_text(then.rows_per_leaf), figure_text(then.leaf_deviation), percent_text(then.signal_kept)
        rows.append((name, str(then.trees), str(then.depth), *figures, brings))
    wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))])
        for row in rows
    ]


def _least(advice: Recommendation, now: Outlook) -> str:
    least = "none is enough" if now.break_even is None else figure_text(now.break_even)
    if not advice.problem.classes:
        return f"Smallest epsilon that is likely to help: {least}."
    who = "assumed; if you know it, say --majority SHARE" if advice.problem.assumed else "as you say"
    return (
        f"Smallest epsilon that is likely to help: {least}, if the largest class has "
        f"{percent_text(advice.problem.majority)} of the rows ({who})."
    )


def _title_line(advice: Recommendation) -> str:
    schema = advice.schema
    label = f"{len(schema.classes)} classes" if schema.classes else "a number to predict"
    features = _plural(len(schema.features), "feature")
    rows = "size unknown" if advice.now is None else f"about {_plural(advice.now.rows, 'row')} ({_source(advice)})"
    name = "this schema" if advice.table is None else f'"{advice.table}"'
    method = advice.method if advice.now is None else f"{advice.method}, {_trees(advice.now)}"
    return (
        f"Advice for {name} at epsilon {advice.epsilon}: {rows}, {features}, {label}; privacy unit: {schema.unit}; "
        f"method {method}."
    )


def _trees(now: Outlook) -> str:
    return count_text(now.trees, now.of_one_feature)


def _source(advice: Recommendation) -> str:
    word = _SIZE_WORDS[advice.source]
    if advice.bought is not None:
        return f"{word}: ± {figure_text(advice.bought.deviation)} for epsilon {advice.bought.epsilon}"
    return word


def _verdict(advice: Recommendation, now: Outlook) -> str:
    rival = _rival(advice)
    if now.verdict == WASTE:
        return (
            f"Not worth the budget: at epsilon {advice.epsilon} a model is not likely to beat {rival}; "
            f"{_what_it_takes(now)}"
        )
    if now.verdict == DOUBTFUL:
        return (
            f"Doubtful: at epsilon {advice.epsilon} a model is likely to beat {rival} only if classes are about "
            f"equally frequent. If the largest has {percent_text(advice.problem.majority)} of the rows: "
            f"{_what_it_takes(now)}"
        )
    if now.verdict == AMPLE:
        less = advice.smaller_epsilon
        would = "A little less" if less is None else f"Epsilon {figure_text(less.epsilon)}"
        return (
            f"More than needed: a model is likely to beat {rival}, and twice the epsilon brings nothing visible. "
            f"{would} would do, and leaves budget for other runs."
        )
    return f"Worth it: a model is likely to beat {rival}."


def _what_it_takes(now: Outlook) -> str:
    epsilon, rows = now.break_even, now.rows_needed
    ways = [] if epsilon is None else [f"epsilon {figure_text(epsilon)} with as many rows"]
    ways += [] if rows is None else [f"about {figure_text(math.ceil(rows))} rows at this epsilon"]
    return f"it would take {', or '.join(ways)}." if ways else "no epsilon and no number of rows changes that."


def _method(now: Outlook) -> str:
    return f"Method: {now.plan.method}, {_trees(now)}, depth {now.depth}. {now.regime[0].upper()}{now.regime[1:]}."


def _split(advice: Recommendation, now: Outlook) -> str:
    parts = [f"{step.name} {format_epsilon(step.nano_epsilon)}" for step in now.plan.steps]
    bought = advice.nano_epsilon - now.plan.nano_epsilon
    note = ""
    if bought:
        parts = [f"size {format_epsilon(bought)}", *parts]
        note = " Where the owner declares the size (rows in the schema), nothing goes for it."
    return f"Epsilon: {', '.join(parts)}.{note}"


def _noise(advice: Recommendation, now: Outlook) -> str:
    ratio = now.rows_per_leaf / now.leaf_deviation
    what = "count" if advice.schema.classes else "sum of targets"
    unit = "rows" if advice.schema.classes else "ranges of the target"
    lines = (
        f"Noise: a leaf's {what} is off by {figure_text(now.leaf_deviation)} {unit} (standard deviation). A leaf has "
        f"{figure_text(now.rows_per_leaf)} rows on average: {figure_text(ratio)} times its noise."
    )
    if now.bin_deviation is not None:
        lines += f" A count of a feature's bin is off by {figure_text(now.bin_deviation)} rows."
    return lines


def _prospects(advice: Recommendation, now: Outlook) -> str:
    least = "none is enough" if now.break_even is None else figure_text(now.break_even)
    return (
        f"Smallest epsilon at which a model is likely to beat {_rival(advice)}: {least}. "
        f"At epsilon {advice.epsilon} {percent_text(now.signal_kept)} of the signal survives: {_gain(advice, now)}."
    )


def _by_majority(advice: Recommendation) -> list[str]:
    """Return the smallest epsilon by the share of the largest class, where that share is unknown and only assumed."""
    if not advice.by_majority or not advice.problem.assumed:
        return []
    parts = [
        f"{'none is enough' if least is None else figure_text(least)} if it has {percent_text(share)} of the rows"
        for share, least in advice.by_majority
    ]
    return [f"It depends on the largest class: {', '.join(parts)}."]


def _what_if(advice: Recommendation, now: Outlook) -> list[str]:
    lines = []
    if advice.twice_epsilon is not None:
        lines.append(f"Twice the epsilon: {_against(advice, now, advice.twice_epsilon)}.")
    if advice.twice_rows is not None:
        lines.append(
            f"Twice the rows: {_against(advice, now, advice.twice_rows)}. "
            "It outweighs noise as twice the epsilon does, halves sampling error too, and costs nobody more privacy."
        )
    if advice.fewer_rows is not None:
        most = advice.schema.unit.max_rows
        lines.append(
            f"Rows of a unit: max_rows {most} makes all noise {most} times that of one row. With max_rows {most // 2}, "
            f"if few rows are lost by it: {_against(advice, now, advice.fewer_rows)}."
        )
    return lines


def _against(advice: Recommendation, now: Outlook, then: Outlook) -> str:
    """Return what changes from one outlook to another, in figures."""
    shape = f"{_trees(then)} of depth {then.depth}"
    same = (then.trees, then.depth) == (now.trees, now.depth)
    more = then.gain - now.gain
    brings = f"{100 * more:+.1f} points" if abs(more) >= INVISIBLE else "nothing visible"
    return (
        f"{'the same trees' if same else shape}, noise {figure_text(then.leaf_deviation)} on "
        f"{figure_text(then.rows_per_leaf)} rows per leaf, {percent_text(then.signal_kept)} of the signal kept, "
        f"{brings}"
    )


def _over_sizes(advice: Recommendation) -> list[str]:
    lines = [
        "It depends on the size, which nobody told:",
        _title_line(advice),
        "",
    ]
    lines.append(f"{'rows':>9}  {'trees':>5}  {'depth':>5}  {'noise per leaf':>14}  {'smallest epsilon':>16}  verdict")
    for outlook in advice.by_size:
        least = "none" if outlook.break_even is None else figure_text(outlook.break_even)
        noise = figure_text(outlook.leaf_deviation)
        lines.append(
            f"{outlook.rows:>9}  {outlook.trees:>5}  {outlook.depth:>5}  {noise:>14}  {least:>16}  {outlook.verdict}"
        )
    lines.append("")
    lines.append(
        "To narrow it: give your own guess (--rows N), buy a noisy size (--buy 0.01), or ask the owner to declare "
        "rows in the schema."
    )
    return lines


def _crowded_lines(advice: Recommendation) -> list[str]:
    """Return what an earlier model knows of ranges that are far too wide or too narrow, one line for each."""
    lines = [f"  {crowded}." for crowded in advice.crowded]
    heading = f"Declared {crowded_heading(advice.crowded)}, as an earlier model's noisy counts say:"
    return [heading, *lines] if lines else []


def _budget(advice: Recommendation) -> list[str]:
    budget = advice.budget
    if budget is None:
        return []
    left = f'Budget of "{budget.table}": {amount_text(advice.left)}'
    left += "" if advice.left is None else f" left of {budget.cap_text}"
    if advice.fits:
        return [f"{left}; a run at epsilon {advice.epsilon} fits."]
    return [f"{left}; a run at epsilon {advice.epsilon} would be refused."]


def _assumption(advice: Recommendation) -> str:
    problem, points = advice.problem, f"{100 * VISIBLE:.0f}"
    if not problem.classes:
        reference = f"by {points} % of the variance, as on made-up tables; on large ones method spe may explain more"
    else:
        whose = "" if problem.assumed else ", as you say"
        reference = (
            f"by {points} points in a reference problem, where one feature in three moves a class by one standard "
            f"deviation, and the largest class has {percent_text(problem.majority)} of the rows{whose}"
        )
    return f"Likely: {reference}. Your table may be easier or harder; no row was read to find out."


def _rival(advice: Recommendation) -> str:
    return "the majority class" if advice.schema.classes else "the mean"


def _gain(advice: Recommendation, now: Outlook) -> str:
    if not advice.schema.classes:
        return f"about {percent_text(now.gain)} of the variance explained"
    return f"in the reference problem {100 * now.gain:.1f} points more rows labelled right"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def figure_text(value: float) -> str:
    """Return a figure with three digits, never in powers of ten.

    >>> figure_text(0.01234), figure_text(2.0), figure_text(123456.7)
    ('0.0123', '2', '123457')
    """
    if value >= 100:
        return f"{value:.0f}"
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    text = f"{value:.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent_text(share: float) -> str:
    """Return a share in hundredths.

    >>> percent_text(0.5), percent_text(0.9999), percent_text(0.0004)
    ('50 %', 'over 99 %', 'under 1 %')
    """
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"
