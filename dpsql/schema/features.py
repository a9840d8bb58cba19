"""Features and targets of a public schema: what a column may hold, and the public grid of cells that it falls on.

Each feature has a public grid of cells: a number falls into one of equal-width cells between its bounds, a category is
its own cell. Splits are made between cells, so that SQL, Python and every database agree on every row.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property

from dpsql.errors import SchemaError
from dpsql.schema.synonyms import Synonyms, check_synonyms, positions_of

#: The most cells of a numeric feature's grid, and of one base-64 digit of a wide category: a cell takes six bits of a
#: packed word.
CELLS = 64
#: The most values that a categorical feature may declare.
MAX_VALUES = 20_000
#: Steps of a numeric target unless declared. Rounding a value to a step changes it by at most 0.05 % of the range, far
#: below any noise; finer steps would not lower the noise, which is a multiple of the range whatever the steps.
DEFAULT_STEPS = 1000
#: The most steps that a numeric target may declare.
MAX_STEPS = 2**20


@dataclass(frozen=True)
class Numeric:
    """A number between public bounds, on a grid of equal-width cells.

    >>> Numeric("age", lower=0, upper=64).edges[:3]
    (1.0, 2.0, 3.0)
    """

    name: str
    lower: float
    upper: float
    cells: int = CELLS
    null: float | None = None
    kind = "numeric"

    def __post_init__(self) -> None:
        check_name(self.name)
        for bound in ("lower", "upper", "null"):
            if bound != "null" or self.null is not None:
                number = finite_number(getattr(self, bound), f'feature "{self.name}": {bound}')
                object.__setattr__(self, bound, number)  # integers become floats: one arithmetic for all
        if not self.lower < self.upper:
            raise SchemaError(f'feature "{self.name}": lower ({self.lower}) must be below upper ({self.upper}).')
        if isinstance(self.cells, bool) or not (isinstance(self.cells, int) and 2 <= self.cells <= CELLS):
            raise SchemaError(f'feature "{self.name}": cells must be a whole number from 2 to {CELLS}.')
        if not (math.isfinite(self.upper - self.lower) and math.isfinite(self.cells / (self.upper - self.lower))):
            raise SchemaError(f'feature "{self.name}": the range from lower to upper is too wide or too narrow.')
        if 1 / self.scale < 8 * self._float_spacing and len(set(self.edges)) != len(self.edges):
            raise SchemaError(f'feature "{self.name}": the range is too narrow for {self.cells} cells.')

    @property
    def scale(self) -> float:
        """Cells per unit of the feature."""
        return self.cells / (self.upper - self.lower)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The smallest number of each cell but the first: x < `edges[k]` holds exactly when the cell of x is ≤ k."""
        return tuple(self._edge(cell) for cell in range(1, self.cells))

    @cached_property
    def _float_spacing(self) -> float:
        """The distance between neighbouring floats at the bound of larger magnitude, where it is largest."""
        return math.ulp(max(abs(self.lower), abs(self.upper)))

    @property
    def null_cell(self) -> int:
        """The cell of NULL and NaN."""
        return 0 if self.null is None else self.cell(self.null)

    def cell(self, number: float) -> int:
        """Return the cell of one number (clamped; NaN goes where NULL goes).

        >>> [Numeric("age", 0, 64).cell(x) for x in (-5, 0, 1.5, 63.9, float("inf"))]
        [0, 0, 1, 63, 63]
        """
        if math.isnan(number):
            return self.null_cell
        return math.floor(min(max((number - self.lower) * self.scale, 0.0), self.cells - 1.0))

    def _edge(self, cell: int) -> float:
        # Bisect in the order of the floats: stepping from each float to the next would not end around zero.
        guess = self.lower + cell / self.scale
        low, high = guess - 4 * self._float_spacing, guess + 4 * self._float_spacing
        below = _rank(low if self.cell(low) < cell else self.lower)
        edge = _rank(high if self.cell(high) >= cell else self.upper)
        while edge - below > 1:
            middle = (below + edge) // 2
            below, edge = (below, middle) if self.cell(_unrank(middle)) >= cell else (middle, edge)
        return _unrank(edge)


@dataclass(frozen=True)
class Categorical:
    """A value from a public list; `values` are compared as text.

    `synonyms` are pairs of a stored text and the value that it means (`dpsql/schema/synonyms.py`).

    >>> Categorical("color", ("red", "green")).cell("blue")
    2
    >>> Categorical("sex", ("male", "female"), synonyms=(("1", "male"), ("2", "female"))).cell(2)
    1
    """

    name: str
    values: tuple[str, ...]
    null: str | None = None
    unknown: str | None = None
    synonyms: Synonyms = ()
    kind = "categorical"

    def __post_init__(self) -> None:
        check_name(self.name)
        check_texts(self.values, f'feature "{self.name}"')
        if not 1 <= len(self.values) <= MAX_VALUES:
            raise SchemaError(
                f'feature "{self.name}": {len(self.values)} values; from 1 to {MAX_VALUES} are possible.',
                hint="group rare values in a view before you register it",
            )
        if len(set(self.values)) != len(self.values):
            raise SchemaError(f'feature "{self.name}": a value is listed twice.')
        for option in ("null", "unknown"):
            if getattr(self, option) is not None and getattr(self, option) not in self.values:
                raise SchemaError(f'feature "{self.name}": {option} must be one of its values.')
        if self.synonyms:
            check_texts(tuple(text for pair in self.synonyms for text in pair), f'feature "{self.name}"')
            object.__setattr__(self, "synonyms", check_synonyms(self.synonyms, self.values, f'feature "{self.name}"'))
            if len(self.synonyms) > MAX_VALUES:
                raise SchemaError(f'feature "{self.name}": {len(self.synonyms)} stored texts; at most {MAX_VALUES}.')

    @property
    def cells(self) -> int:
        """One cell for each value and one for everything else."""
        return len(self.values) + 1

    @property
    def null_cell(self) -> int:
        """The cell of NULL."""
        return len(self.values) if self.null is None else self.values.index(self.null)

    @property
    def unknown_cell(self) -> int:
        """The cell of values that are not declared."""
        return len(self.values) if self.unknown is None else self.values.index(self.unknown)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The cell of each declared value, and of each synonym."""
        return dict(positions_of(self.values, self.synonyms))

    def cell(self, value: object) -> int:
        """Return the cell of one value."""
        text = category_text(value)
        return self.null_cell if text is None else self.positions.get(text, self.unknown_cell)


@dataclass(frozen=True)
class Boolean(Categorical):
    """True or false: a category of two values."""

    values: tuple[str, ...] = ("false", "true")
    kind = "boolean"


Feature = Numeric | Categorical


@dataclass(frozen=True)
class Target:
    """The public bounds of a numeric label. A value counts as a whole number of steps above `lower`.

    >>> [Target(0, 10, steps=100).step(x) for x in (-5, 0.04, 0.05, 7, float("inf"))]
    [0, 0, 1, 70, 100]
    """

    lower: float
    upper: float
    steps: int = DEFAULT_STEPS

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            object.__setattr__(self, bound, finite_number(getattr(self, bound), f"target: {bound}"))
        if not self.lower < self.upper:
            raise SchemaError(f"target: lower ({self.lower}) must be below upper ({self.upper}).")
        if isinstance(self.steps, bool) or not (isinstance(self.steps, int) and 2 <= self.steps <= MAX_STEPS):
            raise SchemaError(f"target: steps must be a whole number from 2 to {MAX_STEPS}.")
        if not (math.isfinite(self.width) and math.isfinite(self.scale) and self.scale > 0):
            raise SchemaError("target: the range from lower to upper is too wide or too narrow.")

    def __str__(self) -> str:
        return f"a number from {self.lower:g} to {self.upper:g}"

    @property
    def width(self) -> float:
        """The length of the range."""
        return self.upper - self.lower

    @property
    def scale(self) -> float:
        """Steps per unit of the target."""
        return self.steps / self.width

    def step(self, number: float) -> int | None:
        """Return the step of one number, clamped and rounded; None for NaN, whose row is not counted."""
        if math.isnan(number):
            return None
        return math.floor(min(max((number - self.lower) * self.scale, 0.0), float(self.steps)) + 0.5)


def category_text(value: object) -> str | None:
    """Return a value as the text that categories are compared by, or None where it is missing.

    >>> [category_text(value) for value in ("a", 3, 3.0, True, None, float("nan"))]
    ['a', '3', '3', 'true', None, None]
    """
    if isinstance(value, str):
        return value
    text = str(value)
    if value is None or text in ("<NA>", "NaT") or value != value:
        return None
    if text in ("True", "False"):
        return text.lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return text


def check_name(name: object) -> None:
    """Refuse what cannot name a column: anything but text, empty text, a NUL or a lone surrogate."""
    if not isinstance(name, str) or not name or not _storable(name) or len(name) > 1000:
        raise SchemaError("a column name must be non-empty text of at most 1000 characters without NUL.")


def check_texts(values: tuple[str, ...], where: str) -> None:
    """Refuse values that are not text which a database can store."""
    if not isinstance(values, tuple) or not all(isinstance(value, str) and _storable(value) for value in values):
        raise SchemaError(f"{where}: values must be text without NUL or lone surrogate characters.")


def _storable(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)


def finite_number(value: object, where: str) -> float:
    """Return a finite number as a float, or refuse it."""
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise SchemaError(f"{where} must be a finite number.")


def _rank(number: float) -> int:
    """Return the place of a float in the order of all floats; both zeros have the same place."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _unrank(rank: int) -> float:
    return math.copysign(struct.unpack("<d", struct.pack("<q", abs(rank)))[0], rank)


def whole_number(value: object, where: str) -> int | None:
    """Return a whole number or None; refuse anything else."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise SchemaError(f"{where} must be a whole number.")
