"""A cell as the word that it means: its text, or where that text is a declared synonym, the word in its place.

    CASE WHEN CAST("churn" AS TEXT) = 'false' THEN 'no' WHEN CAST("churn" AS TEXT) = 'true' THEN 'yes'
         ELSE CAST("churn" AS TEXT) END

The expression is total: NULL stays NULL, and a text that is no synonym stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.vocabulary import case

#: Pairs of a stored text and the word that it means; empty where a column stores the words themselves.
Synonyms = tuple[tuple[str, str], ...]


def word_text(value: exp.Expr, synonyms: Synonyms = ()) -> exp.Expr:
    """Return a column's value as text, with words in place of their synonyms.

    >>> word_text(exp.column("churn")).sql()
    'CAST(churn AS TEXT)'
    >>> word_text(exp.column("churn"), (("true", "yes"),)).sql()
    "CASE WHEN CAST(churn AS TEXT) = 'true' THEN 'yes' ELSE CAST(churn AS TEXT) END"
    """
    text = exp.cast(value, exp.DataType.Type.TEXT)
    return words_of_text(text, synonyms) if synonyms else text


def words_of_text(text: exp.Expr, synonyms: Synonyms) -> exp.Expr:
    """Return a text with words in place of their synonyms; the synonyms of one word share a branch."""
    branches = [(_one_of(text, texts), exp.Literal.string(word)) for word, texts in _texts_by_word(synonyms).items()]
    return case([(test, word) for test, word in branches], text.copy())


def _texts_by_word(synonyms: Synonyms) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for text, word in synonyms:
        texts.setdefault(word, []).append(text)
    return texts


def _one_of(text: exp.Expr, texts: Sequence[str]) -> exp.Expr:
    literals = [exp.Literal.string(value) for value in texts]
    if len(literals) == 1:
        return exp.EQ(this=text.copy(), expression=literals[0])
    return exp.In(this=text.copy(), expressions=literals)
