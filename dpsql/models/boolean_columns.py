"""Columns of new rows in memory that hold booleans where a model knows words, or the other way round.

Scoring such a column would count every value as unknown, and predict nonsense without a word. The rows are the
caller's own, so that an error may depend on them.
"""

from __future__ import annotations

import pandas as pd

from dpsql.errors import SchemaError
from dpsql.kernel.datasets.word_offers import boolean_mapping
from dpsql.schema import Categorical, Schema, category_text

_BOOLEANS = frozenset(("true", "false"))


def check_booleans(feature: Categorical, column: pd.Series) -> None:
    """Raise SchemaError where a column holds nothing but booleans and the feature knows neither true nor false.

    The same where the feature knows nothing else than true and false, and the column holds neither.
    """
    known = set(feature.positions)
    if known & _BOOLEANS and not known <= _BOOLEANS:
        return
    texts = {text for text in (category_text(value) for value in column.unique()) if text is not None}
    if not texts:
        return
    if known <= _BOOLEANS and not texts & _BOOLEANS:
        raise SchemaError(
            f'column "{feature.name}" of the data holds neither true nor false, and the model knows nothing else.',
            hint=_declare("the words that it holds", "yes", "no"),
        )
    if texts <= _BOOLEANS and not known & _BOOLEANS:
        mapping = boolean_mapping({word: [word] for word in feature.values}) or {"true": "yes", "false": "no"}
        raise SchemaError(
            f'column "{feature.name}" of the data holds true and false, and the model was trained on words.',
            hint=_declare("both", mapping["true"], mapping["false"]),
        )


def _declare(what: str, true_word: str, false_word: str) -> str:
    mapping = f'values: {{"false": {false_word}, "true": {true_word}}}'
    return f"replace the values before you predict; or train again with {what} declared: {mapping}"


class BooleanParts:
    """What columns hold that come in parts, as far as it tells booleans from words; checked at the end."""

    def __init__(self, schema: Schema) -> None:
        self._seen: dict[Categorical, set[str]] = {
            feature: set() for feature in schema.features if isinstance(feature, Categorical)
        }

    def add(self, frame: pd.DataFrame) -> None:
        """Look at one more part: of the texts that are no booleans one is enough."""
        for feature, seen in self._seen.items():
            texts = {text for text in map(category_text, frame[feature.name].dropna().unique()) if text is not None}
            seen |= {*(texts & _BOOLEANS), *sorted(texts - _BOOLEANS)[:1]}

    def check(self) -> None:
        """Raise the SchemaError of `check_booleans` for the first column that deserves it."""
        for feature, seen in self._seen.items():
            check_booleans(feature, pd.Series(sorted(seen), dtype=object))
