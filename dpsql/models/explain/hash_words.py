"""Says which cell of a hashed category words fall into: words that the caller knows, from no row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsql.errors import ParameterError, UnknownName
from dpsql.schema import Hashed, Schema


def words_with_cells(schema: Schema, given: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield feature, word and cell of each text `FEATURE=WORD`, or raise where that is no hashed feature.

    A word whose cell is not among the listed ones has the cell "other".

    >>> list(words_with_cells(Schema("y", ("a", "b"), (Hashed("job"),)), ["job=nurse"]))
    [{'feature': 'job', 'word': 'nurse', 'cell': '#59'}]
    """
    hashed = {feature.name: feature for feature in schema.features if isinstance(feature, Hashed)}
    for text in given:
        name, equals, word = text.partition("=")
        if not equals:
            raise ParameterError("word", allowed="FEATURE=WORD", given=text)
        if name not in hashed:
            raise UnknownName("hashed feature", name, hashed, hint="the other features have values in place of cells")
        yield {"feature": name, "word": word, "cell": [*hashed[name].values, "other"][hashed[name].cell(word)]}
