"""Writes an explanation as plain text, with bars."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dpsql.models.explain.crowded import crowded_heading
from dpsql.trees.tree_count import count_text

if TYPE_CHECKING:
    from dpsql.models.explain.explanation_values import ClassProfile, Effect, Learned, Reason

#: The features that have a bar, unless the caller asks for more.
TOP = 10
#: The most reasons that are shown of a profile.
REASONS = 4
#: The most profiles that are shown.
PROFILES = 12
#: The length of the longest bar, in characters.
_BAR = 30
#: The width of the text, in characters.
_WIDTH = 120
#: The most characters of a feature's name.
_NAME = 32


def explanation_text(learned: Learned, *, top: int = TOP) -> str:
    """Return the summary: what is predicted from what, its cost, the features' importance, each class's profile."""
    parts: list[Iterable[str]] = [
        _head(learned),
        _importance(learned.effects, top),
        _unseen(learned.effects),
        _crowded_lines(learned),
        _profiles(learned),
        _footer(learned),
    ]
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part)


def _head(learned: Learned) -> Iterator[str]:
    yield f'What "{learned.model}" learned'
    kinds = learned.target or f"one of {_join_words(learned.classes, 'or')}"
    yield from _wrap("Predicts:  ", f"{learned.label}, {kinds}")
    used = sum(effect.read for effect in learned.effects)
    yield from _wrap(
        "From:      ",
        f'{used} of {len(learned.effects)} features of table "{learned.table}", by {learned.method}: '
        f"{count_text(learned.trees, learned.of_one_feature)}, {learned.leaves} leaves",
    )
    cost = f"epsilon {learned.epsilon} when it was trained ({learned.neighbours})"
    yield f"Cost:      {cost if learned.private else 'NOT differentially private: the variant has no proof'}"
    yield f"Values:    as frequent as {learned.background}"
    yield "           No private row was read for this summary: it costs nothing, however often you ask."


def _importance(effects: Sequence[Effect], top: int) -> Iterator[str]:
    yield "What its predictions depend on"
    shown = [effect for effect in effects[:top] if effect.importance > 0]
    if not shown:
        yield "  nothing: it predicts the same for every row"
        return
    wide = max(len(_shorten(effect.feature, _NAME)) for effect in shown)
    largest = shown[0].importance
    for effect in shown:
        bar = "█" * max(1, round(_BAR * effect.importance / largest)) + ("  (noise)" if effect.drowned else "")
        yield f"  {_shorten(effect.feature, _NAME):<{wide}}  {100 * effect.importance:5.1f} %  {bar}"
    rest = [effect.importance for effect in effects[len(shown) :] if effect.importance > 0]
    if rest:
        yield f"  {f'{len(rest)} more':<{wide}}  {100 * sum(rest):5.1f} %"


def _unseen(effects: Sequence[Effect]) -> list[str]:
    unread = [effect.feature for effect in effects if not effect.read]
    drowned = [effect.feature for effect in effects if effect.drowned and effect.read]
    lines = []
    if unread or drowned:
        lines.append("What it could not see")
    if drowned:
        lines += _wrap("  ", f"drowned in noise, no value stands out: {_join_words(drowned)}")
    if unread:
        lines += _wrap("  ", f"read by no tree: {_join_words(unread)}")
    return lines


def _crowded_lines(learned: Learned) -> list[str]:
    """Return which declared ranges are far too wide or too narrow, if any."""
    lines = [line for crowded in learned.crowded for line in _wrap("  ", str(crowded))]
    return [f"What was declared {crowded_heading(learned.crowded)}", *lines] if lines else []


def _profiles(learned: Learned) -> Iterator[str]:
    for number, profile in enumerate(learned.profiles[:PROFILES]):
        if number:
            yield ""
        yield _title(learned, profile)
        if not profile.reasons:
            yield "  nothing that stands out"
        for reason in profile.reasons[:REASONS]:
            yield f"  {_effect(reason, numeric=profile.share is None)}  {_shorten(reason.text, _WIDTH - 20)}"
    if len(learned.profiles) > PROFILES:
        yield f"\n… {len(learned.profiles) - PROFILES} more classes (all of them: --json, or .profiles in Python)"


def _footer(learned: Learned) -> list[str]:
    lines = _wrap("Domains:   ", learned.looked_up) if learned.looked_up else []
    if not any(effect.counted for effect in learned.effects):
        lines += _wrap(
            "Noise:     ", "how much of these reasons is noise is not known: the model kept no counts of features"
        )
    return lines


def _title(learned: Learned, profile: ClassProfile) -> str:
    if profile.share is None:
        return f"What makes {learned.label} {profile.name}"
    rows = any(effect.counted for effect in learned.effects)
    share = f"{100 * profile.share:.1f} % of the {'rows' if rows else 'predictions'}"
    return f"What speaks for {learned.label} {profile.name} ({share}), and how many times as often as on average"


def _effect(reason: Reason, *, numeric: bool) -> str:
    if numeric:
        return f"{reason.effect:+10.4g}"
    return f"{reason.effect:5.2f}{'' if reason.error is None else f' ± {reason.error:.2f}'}"


def _wrap(head: str, body: str) -> list[str]:
    return textwrap.wrap(body, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _join_words(texts: Sequence[str], word: str = "and", most: int = 12) -> str:
    if len(texts) > most:
        return f"{', '.join(texts[:most])} {word} {len(texts) - most} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"
