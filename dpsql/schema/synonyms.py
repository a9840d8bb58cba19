"""Synonyms: stored texts that mean a declared word, as `"true": yes` for a column of booleans or `1: male` for codes.

In a file they are a mapping from the stored text to the word, in place of a list of words: the words are the values (or
the classes), in the order in which they first appear, and a word matches its own text too. So a column that stores
`true` and a column that stores `yes` have the same cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.errors import SchemaError

if TYPE_CHECKING:
    from dpsql.schema.features import Feature
    from dpsql.schema.schema import Schema

#: Pairs of a stored text and the word that it means.
Synonyms = tuple[tuple[str, str], ...]


def words_and_synonyms(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], Synonyms]:
    """Return the words of a mapping in the order of first appearance, and its synonyms; a word needs none for itself.

    >>> words_and_synonyms([("false", "no"), ("true", "yes"), ("0", "no"), ("maybe", "maybe")])
    (('no', 'yes', 'maybe'), (('false', 'no'), ('true', 'yes'), ('0', 'no')))
    """
    declared = list(pairs)
    words = tuple(dict.fromkeys(word for _, word in declared))
    return words, tuple((text, word) for text, word in declared if text != word)


def check_synonyms(synonyms: Synonyms, words: Sequence[str], where: str) -> Synonyms:
    """Return synonyms in the order of the words, or raise SchemaError where one of them is ambiguous or means no word.

    The texts and the words must have been checked before, as all declared texts are.
    """
    texts = [text for text, _ in synonyms]
    if len(set(texts)) != len(texts):
        raise SchemaError(f"{where}: a stored text is listed twice.")
    places = {word: place for place, word in enumerate(words)}
    for text, word in synonyms:
        if text in places:
            raise SchemaError(
                f'{where}: "{text[:80]}" is a word and also a stored text of "{word[:80]}": it would mean both.',
                hint="a word stands for its own text; leave out the pair",
            )
        if word not in places:
            raise SchemaError(f'{where}: the stored text "{text[:80]}" means "{word[:80]}", which is not declared.')
    return tuple(sorted(synonyms, key=lambda pair: places[pair[1]]))


def plain_words(words: Sequence[str], synonyms: Synonyms) -> list[str] | dict[str, str]:
    """Return words as a file declares them: a list, or where there are synonyms a mapping.

    >>> plain_words(("no", "yes", "maybe"), (("false", "no"), ("true", "yes")))
    {'false': 'no', 'true': 'yes', 'maybe': 'maybe'}
    """
    if not synonyms:
        return list(words)
    texts = {word: [text for text, meant in synonyms if meant == word] or [word] for word in words}
    return {text: word for word in words for text in texts[word]}


def without_synonyms(schema: Schema) -> Schema:
    """Return what a schema means, whatever texts its table stores: the same classes and features, without synonyms."""
    features = tuple(_with(feature, ()) for feature in schema.features)
    return replace(schema, features=features, class_synonyms=())


def with_synonyms_of(schema: Schema, other: Schema) -> Schema:
    """Return a schema that also knows the synonyms of another schema of the same classes and features.

    Where the two disagree on what a stored text means, the first one's meaning stays.
    """
    known = {feature.name: feature for feature in other.features}
    features = tuple(
        _with(
            feature,
            _join_synonyms(getattr(feature, "synonyms", ()), known[feature.name], getattr(feature, "values", ())),
        )
        if feature.name in known
        else feature
        for feature in schema.features
    )
    classes = _missing_pairs(schema.class_synonyms, other.class_synonyms, schema.classes)
    return replace(schema, features=features, class_synonyms=schema.class_synonyms + classes)


def _join_synonyms(synonyms: Synonyms, other: Feature, words: Sequence[str]) -> Synonyms:
    return synonyms + _missing_pairs(synonyms, getattr(other, "synonyms", ()), words)


def _missing_pairs(synonyms: Synonyms, others: Synonyms, words: Sequence[str]) -> Synonyms:
    taken = {text for text, _ in synonyms} | set(words)
    return tuple((text, word) for text, word in others if text not in taken and word in words)


def _with(feature: Feature, synonyms: Synonyms) -> Feature:
    """Return a category with these synonyms; a number and a hashed category have none."""
    category: Any = feature
    return feature if getattr(feature, "synonyms", synonyms) == synonyms else replace(category, synonyms=synonyms)


def positions_of(words: Sequence[str], synonyms: Synonyms) -> Mapping[str, int]:
    """Return the place of the word that each text means, for all words and synonyms."""
    places = {word: place for place, word in enumerate(words)}
    return places | {text: places[word] for text, word in synonyms}
