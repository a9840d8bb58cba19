"""The hashed category: a column whose values nobody can list falls on a public grid by a public hash of its text.

    cell = (the first 32 bits of MD5 of the value's text in UTF-8, as a whole number) modulo the number of cells

The hash has no key and knows no row, so it is as public as a list of values, and it costs no epsilon. MD5 serves to
spread values evenly, not to hide them: whoever has a value can work out its cell, on every database.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from dpsql.errors import SchemaError
from dpsql.schema.features import CELLS, Categorical, category_text, check_name
from dpsql.schema.synonyms import Synonyms

#: The most cells of a hash, and the default: with the cell of NULL they fill one axis.
HASH_CELLS = CELLS - 1
#: How many hexadecimal digits of MD5 are the number that is divided: 32 bits, which every database has integers for.
HASH_DIGITS = 8


@dataclass(frozen=True)
class Hashed(Categorical):
    """A value of a column whose values nobody can list, by its cell of a public hash; NULL has a cell of its own.

    `hash_cells` is the number of cells that values fall into, from 2 to 63. The names of these cells stand where a
    category has its values.

    >>> job = Hashed("job", 20)
    >>> job.values[:2], job.cell("nurse"), job.cell(None)
    (('#0', '#1'), 17, 20)
    """

    values: tuple[str, ...] = field(init=False, default=())
    null: str | None = field(init=False, default=None)
    unknown: str | None = field(init=False, default=None)
    synonyms: Synonyms = field(init=False, default=())
    hash_cells: int = HASH_CELLS
    kind = "hashed"

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_hash_cells(self.hash_cells, f'feature "{self.name}"')
        object.__setattr__(self, "values", tuple(f"#{cell}" for cell in range(self.hash_cells)))

    def cell(self, value: object) -> int:
        """Return the cell of one value."""
        return hashed_cell(value, self.hash_cells)


def hashed_cell(value: object, cells: int = HASH_CELLS) -> int:
    """Return the cell that a value has in a hashed category of so many cells; `cells` itself where it is missing.

    Every engine and every exported model gives a value the same cell. Integers and dates count as their text.

    >>> hashed_cell("nurse"), hashed_cell("Nurse"), hashed_cell(1234), hashed_cell("1234"), hashed_cell(None)
    (59, 53, 15, 15, 63)
    """
    _check_hash_cells(cells, "a hashed category")
    text = category_text(value)
    if text is None:
        return cells
    digest = hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:HASH_DIGITS], 16) % cells


def _check_hash_cells(cells: object, where: str) -> None:
    if type(cells) is not int or not 2 <= cells <= HASH_CELLS:
        raise SchemaError(f"{where}: cells must be a whole number from 2 to {HASH_CELLS}.")
