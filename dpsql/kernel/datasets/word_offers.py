"""What to write instead of words that a column can never hold: the mapping to paste, or the right letter case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.engines.base import Column
from dpsql.schema.schema_file import inline, quote

#: Words that usually stand for true, in lower case.
_TRUE = frozenset(("yes", "y", "true", "t", "1", "on", "positive", "ja", "oui", "si", "sí", "da"))
#: Words that usually stand for false, in lower case.
_FALSE = frozenset(("no", "n", "false", "f", "0", "off", "negative", "nein", "non", "nie", "net"))
#: The most values that a message lists.
_MOST_LISTED = 5


@dataclass(frozen=True)
class Words:
    """Declared words of a column, each with all texts that mean it; `key` is "classes" or "values"."""

    key: str
    column: str
    texts: Mapping[str, list[str]]

    @property
    def what(self) -> str:
        """The column in words."""
        return f'the label "{self.column}"' if self.key == "classes" else f'feature "{self.column}"'


def shown_list(values: Iterable[str]) -> str:
    """Return some values in quotes, and how many more there are.

    >>> shown_list(["a", "b"])
    '"a", "b"'
    """
    listed = list(values)
    shown = ", ".join(f'"{value[:40]}"' for value in listed[:_MOST_LISTED])
    return shown if len(listed) <= _MOST_LISTED else f"{shown} and {len(listed) - _MOST_LISTED} more"


def fix_for_words(column: Column, words: Words, never: Sequence[str], *, trained: bool) -> str:
    """Return what to do about words that a column can never hold.

    `trained` says that a model knows these words, and that the column belongs to rows that it is asked to score.
    """
    if column.family == "boolean":
        return _fix_for_boolean(words, trained=trained)
    near = _same_but_for_case(column, never)
    if near and not trained:
        return f"letter case counts: {words.key}: {inline(_correct_case(words, near))}"
    example = " or ".join(f"{quote(text)}: {inline(never[0])}" for text in _example_texts(column))
    if trained:
        return f"a view that writes the words: SELECT CASE … WHEN … THEN '{never[0]}' … END AS {words.column}, …"
    mapping = f"{words.key}: {{{example}, …}}"
    return f"correct or leave out {shown_list(never)}; or say which stored text means it, as in {mapping}"


def boolean_mapping(texts: Mapping[str, list[str]]) -> dict[str, str] | None:
    """Return which of two words true and false mean, as far as the words tell; otherwise the second is true.

    >>> boolean_mapping({"Yes": ["Yes"], "No": ["No"]}), boolean_mapping({"a": [], "b": [], "c": []})
    ({'false': 'No', 'true': 'Yes'}, None)
    """
    if len(texts) != 2:
        return None
    first, second = texts
    if first.lower() in _TRUE or second.lower() in _FALSE:
        first, second = second, first
    return {"false": first, "true": second}


def known_boolean_mapping(words: Sequence[str]) -> dict[str, str] | None:
    """Return which of two words true and false mean where both are usual words, as no and yes are; else None.

    >>> known_boolean_mapping(["yes", "no"]), known_boolean_mapping(["a", "b"]), known_boolean_mapping(["t", "false"])
    ({'false': 'no', 'true': 'yes'}, None, None)
    """
    mapping = boolean_mapping({word: [word] for word in words})
    if mapping is None or mapping["false"].lower() not in _FALSE or mapping["true"].lower() not in _TRUE:
        return None
    return None if {"false", "true", "0", "1"} & {word.lower() for word in words} else mapping


def _fix_for_boolean(words: Words, *, trained: bool) -> str:
    mapping = boolean_mapping(words.texts)
    if mapping is None:
        return f'{words.key}: ["false", "true"], or a column of texts'
    pasted = ", ".join(f"{quote(text)}: {inline_word(word)}" for text, word in mapping.items())
    if trained:
        again = f"train again with {words.key}: {{{pasted}}}"
        return f"{again}; or score a view with CASE WHEN {words.column} THEN '{mapping['true']}' ELSE … END"
    if [word.lower() for word in mapping.values()] == ["false", "true"]:
        return f'{words.key}: ["false", "true"]'
    flags = [f"{text}={word}" for text, word in sorted(mapping.items(), reverse=True)]
    if words.key == "classes":
        shell = " ".join(f"--class {flag}" for flag in flags)
    else:
        shell = f"--categorical {words.column}:{','.join(flags)}"
    return f"{words.key}: {{{pasted}}}   (on the command line: {shell})"


def inline_word(word: str) -> str:
    """Return a word as it may stand in a schema file, where no and yes are text without quotes."""
    return word if word.lower() in ("no", "yes", "on", "off", "y", "n") else inline(word)


def _same_but_for_case(column: Column, never: Sequence[str]) -> dict[str, str]:
    """Return the values of an ENUM that differ from impossible words by letter case or blanks alone."""
    values = {value.strip().lower(): value for value in column.values}
    return {word: values[word.strip().lower()] for word in never if word.strip().lower() in values}


def _correct_case(words: Words, near: Mapping[str, str]) -> list[str]:
    return [near.get(word, word) for word in words.texts]


def _example_texts(column: Column) -> list[str]:
    if column.values:
        return [column.values[0]]
    return {"integer": ["1"], "date": ["2020-01-31"]}.get(column.family, ["…"])
