"""The hashed category: a column whose values nobody can list falls on a public grid by a public hash of its text.

    cell = (the first 32 bits of MD5 of the value's text in UTF-8, as a whole number) modulo the number of cells

The hash has no key and knows no row, so it is as public as a list of values, and it costs no epsilon. MD5 serves to
spread values evenly, not to hide them: whoever has a value can work out its cell, on every database.

Few cells mean that two values may share one; cells that no value has are noise. Where it is known which cells of a
wider hash are in use (`dpsql register --buy` asks for noisy counts of them), those are listed, and all others are one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from dpsql.errors import SchemaError
from dpsql.schema.features import CELLS, Categorical, category_text, check_name
from dpsql.schema.synonyms import Synonyms

#: The most cells of a hash, and the default: with the cell of NULL they fill one axis.
HASH_CELLS = CELLS - 1
#: The most cells of a hash some of which are listed, and the cells that are counted when lists are bought: wide enough
#: that of ten values two share a cell once in 91 tables, narrow enough that noise on all cells costs little.
WIDE_HASH_CELLS = 4096
#: How many hexadecimal digits of MD5 are the number that is divided: 32 bits, which every database has integers for.
HASH_DIGITS = 8


@dataclass(frozen=True)
class Hashed(Categorical):
    """A value of a column whose values nobody can list, by its cell of a public hash; NULL has a cell of its own.

    `hash_cells` is the number of cells that values fall into, from 2 to 63. The names of these cells stand where a
    category has its values. With `listed`, numbers of some of up to 4096 cells in ascending order, these cells alone
    are told apart; NULL and every other value share the last one.

    >>> job = Hashed("job", 20)
    >>> job.values[:2], job.cell("nurse"), job.cell(None)
    (('#0', '#1'), 17, 20)
    >>> job = Hashed("job", 4096, (145, 2609))
    >>> job.values, [job.cell(value) for value in ("nurse", "pilot", None)]
    (('#145', '#2609'), [1, 2, 2])
    """

    values: tuple[str, ...] = field(init=False, default=())
    null: str | None = field(init=False, default=None)
    unknown: str | None = field(init=False, default=None)
    synonyms: Synonyms = field(init=False, default=())
    hash_cells: int = HASH_CELLS
    listed: tuple[int, ...] = ()
    kind = "hashed"

    def __post_init__(self) -> None:
        check_name(self.name)
        where = f'feature "{self.name}"'
        most = HASH_CELLS if self.listed == () else WIDE_HASH_CELLS
        _check_hash_cells(self.hash_cells, where, most)
        _check_listed(self.listed, self.hash_cells, where)
        object.__setattr__(self, "values", tuple(f"#{cell}" for cell in self.listed or range(self.hash_cells)))

    @cached_property
    def cell_of_hash(self) -> tuple[int, ...]:
        """The feature's cell of each cell of the hash, and at the end that of NULL."""
        if not self.listed:
            return tuple(range(self.hash_cells + 1))
        places = {number: place for place, number in enumerate(self.listed)}
        return tuple(places.get(number, self.null_cell) for number in range(self.hash_cells + 1))

    def cell(self, value: object) -> int:
        """Return the cell of one value."""
        return self.cell_of_hash[hashed_cell(value, self.hash_cells)]


def hashed_cell(value: object, cells: int = HASH_CELLS) -> int:
    """Return the cell that a value has in a hash of so many cells, from 2 to 4096; `cells` itself where it is missing.

    Every engine and every exported model gives a value the same cell. Integers and dates count as their text.

    >>> hashed_cell("nurse"), hashed_cell("Nurse"), hashed_cell(1234), hashed_cell("1234"), hashed_cell(None)
    (59, 53, 15, 15, 63)
    """
    _check_hash_cells(cells, "a hashed category", WIDE_HASH_CELLS)
    text = category_text(value)
    if text is None:
        return cells
    digest = hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:HASH_DIGITS], 16) % cells


def _check_hash_cells(cells: object, where: str, most: int) -> None:
    if type(cells) is not int or not 2 <= cells <= most:
        more = f" (to {WIDE_HASH_CELLS} where cells are listed)" if most == HASH_CELLS else ""
        raise SchemaError(f"{where}: cells must be a whole number from 2 to {most}{more}.")


def _check_listed(listed: object, cells: int, where: str) -> None:
    """Refuse anything but numbers of cells, each once and in ascending order, that fill at most one axis."""
    if type(listed) is not tuple or not all(type(cell) is int and 0 <= cell < cells for cell in listed):
        raise SchemaError(f"{where}: listed must be whole numbers from 0 to {cells - 1}, cells of the hash.")
    if list(listed) != sorted(set(listed)):
        raise SchemaError(f"{where}: listed must be in ascending order, each cell once.")
    if len(listed) > HASH_CELLS:
        raise SchemaError(f"{where}: listed has {len(listed)} cells; {HASH_CELLS} is the most.")
