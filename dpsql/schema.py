"""The public schema of a private table: features with their domains, classes or a target, the privacy unit.

Everything here is declared by the owner and public. Nothing is ever looked up in rows. Each feature has a
public grid of cells: a number falls into one of equal-width cells between its bounds, a category is its own
cell. Splits are made between cells, so that SQL, Python and every database agree on every row.

Where values go that are not what was declared:

- a number below `lower` or above `upper`, or infinite, is clamped into the first or last cell;
- a NULL or NaN number is taken as `lower`, or as the value declared with `null`;
- a NULL or unknown category has a cell of its own ("other"), or is taken as the value declared
  with `null` or `unknown`;
- a row whose label is NULL or not one of the classes, or whose unit is NULL, is not counted;
- a numeric target is clamped to its bounds, infinities too; a row whose target is NULL or NaN is not counted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpsql.errors import SchemaError

#: Cells of a numeric feature's grid, and of one digit of a wide category: six bits in a packed word.
CELLS = 64
MAX_VALUES = 4096
MAX_CLASSES = 1024
MAX_FEATURES = 2000
#: Steps of a numeric target unless declared. Rounding to one costs at most 0.05 % of the range, far below any noise;
#: finer steps would not lower the noise, which is a multiple of the range whatever the steps.
STEPS = 1000
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
                number = finite(getattr(self, bound), f'feature "{self.name}": {bound}')
                object.__setattr__(self, bound, number)  # whole numbers become floats: one arithmetic for all
        if not self.lower < self.upper:
            raise SchemaError(f'feature "{self.name}": lower ({self.lower}) must be below upper ({self.upper}).')
        if isinstance(self.cells, bool) or not (isinstance(self.cells, int) and 2 <= self.cells <= CELLS):
            raise SchemaError(f'feature "{self.name}": cells must be a whole number from 2 to {CELLS}.')
        if not (math.isfinite(self.upper - self.lower) and math.isfinite(self.cells / (self.upper - self.lower))):
            raise SchemaError(f'feature "{self.name}": the range from lower to upper is too wide or too narrow.')
        if 1 / self.scale < 8 * self._grain and len(set(self.edges)) != len(self.edges):
            raise SchemaError(f'feature "{self.name}": the range is too narrow for {self.cells} cells.')

    @property
    def scale(self) -> float:
        """Cells per unit of the feature."""
        return self.cells / (self.upper - self.lower)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The smallest number in each cell but the first: `x < edge` and the cell of x always agree."""
        return tuple(self._edge(cell) for cell in range(1, self.cells))

    @cached_property
    def _grain(self) -> float:
        """The distance between neighbouring floats where the range is widest."""
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
        # Halving over the order of the floats: stepping from one to the next would not end around zero.
        guess = self.lower + cell / self.scale
        low, high = guess - 4 * self._grain, guess + 4 * self._grain
        below = _rank(low if self.cell(low) < cell else self.lower)
        edge = _rank(high if self.cell(high) >= cell else self.upper)
        while edge - below > 1:
            middle = (below + edge) // 2
            below, edge = (below, middle) if self.cell(_unrank(middle)) >= cell else (middle, edge)
        return _unrank(edge)


@dataclass(frozen=True)
class Categorical:
    """A value from a public list; `values` are compared as text.

    >>> Categorical("color", ("red", "green")).cell("blue")
    2
    """

    name: str
    values: tuple[str, ...]
    null: str | None = None
    unknown: str | None = None
    kind = "categorical"

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_texts(self.values, f'feature "{self.name}"')
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
        """The cell of each declared value."""
        return {value: cell for cell, value in enumerate(self.values)}

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
    steps: int = STEPS

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            object.__setattr__(self, bound, finite(getattr(self, bound), f"target: {bound}"))
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


@dataclass(frozen=True)
class Unit:
    """The privacy unit: one row (`column` is None), or all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; which ones is decided by a keyed hash. With `labels` only the labels are
    private: neighbours have the same rows, and those of one unit may have other labels.
    """

    column: str | None = None
    max_rows: int = 1
    labels: bool = False

    def __post_init__(self) -> None:
        if self.column is not None:
            check_name(self.column)
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise SchemaError("privacy_unit: max_rows must be a whole number from 1 to 1000000.")

    def __str__(self) -> str:
        whole = "row" if self.column is None else f'"{self.column}", at most {self.max_rows} rows each'
        return f"label of a {whole}" if self.labels else whole

    @property
    def change(self) -> int:
        """How many counts of one tree a unit can change by one: its rows, or for each label one down and one up."""
        return self.max_rows * (2 if self.labels else 1)

    @property
    def neighbours(self) -> str:
        """The neighbour relation in words, as printed on every model and every ledger entry."""
        if self.labels:
            return "change the label of one row" if self.column is None else f'change all labels of one "{self.column}"'
        if self.column is None:
            return "add or remove one row"
        return f'add or remove all rows of one "{self.column}" (at most {self.max_rows} are used)'


@dataclass(frozen=True)
class Schema:
    """What the owner declares about a private table; public from the moment it is registered.

    The label is one of the `classes`, or a number with the bounds of `target`; then there are no classes. A table that
    only shapes trees has no label at all. `public_features` says that labels alone are private, `disjoint_from` names
    tables in which none of this table's units is.
    """

    label: str
    classes: tuple[str, ...]
    features: tuple[Feature, ...]
    unit: Unit = field(default_factory=Unit)
    rows: int | None = None
    partition: str | None = None
    batch: str | None = None
    target: Target | None = None
    public_features: bool = False
    disjoint_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.label or self.classes or self.target:
            check_name(self.label)
            self._check_classes()
        _check_texts(self.disjoint_from, "disjoint_from")
        if not isinstance(self.public_features, bool):
            raise SchemaError("public_features must be true or false.")
        if not 1 <= len(self.features) <= MAX_FEATURES:
            raise SchemaError(f"features: {len(self.features)} given; from 1 to {MAX_FEATURES} are possible.")
        self._check_columns()
        if self.partition is not None:
            check_name(self.partition)
        if self.batch is not None:
            check_name(self.batch)
            if "=" in self.batch or self.batch.lower() == self.label.lower():
                raise SchemaError("batch: the column must not be the label, and its name must not hold a =.")
        if whole(self.rows, "rows") is not None and not 0 < (self.rows or 0) < 2**53:
            raise SchemaError("rows: the approximate public size must be a positive whole number.")

    def _check_classes(self) -> None:
        _check_texts(self.classes, "classes")
        if self.target is not None:
            if self.classes:
                raise SchemaError("a label has classes or a numeric target, not both.", hint="leave out one of them")
            return
        if not 2 <= len(self.classes) <= MAX_CLASSES:
            raise SchemaError(f"classes: {len(self.classes)} given; from 2 to {MAX_CLASSES} are possible.")
        if len(set(self.classes)) != len(self.classes):
            raise SchemaError("classes: a class is listed twice.")

    def _check_columns(self) -> None:
        names = [feature.name.lower() for feature in self.features]
        if len(set(names)) != len(names):
            raise SchemaError("features: a column is listed twice (letter case does not count).")
        if self.label.lower() in names:
            raise SchemaError(f'the label "{self.label}" is also listed as a feature.')
        for role, column in (("privacy unit", self.unit.column), ("partition column", self.partition)):
            if column is not None and column.lower() in (*names, self.label.lower()):
                raise SchemaError(f'the {role} "{column}" is also the label or a feature.')

    @property
    def labelled(self) -> bool:
        """Whether the table has a label."""
        return bool(self.label)

    @property
    def leaf_values(self) -> int:
        """How many whole numbers a leaf holds: one for each class, or two for the mean of a target."""
        return len(self.classes) if self.target is None else 2

    @property
    def steps(self) -> int:
        """How far apart two targets can be, in steps; 0 where there are classes."""
        return 0 if self.target is None else self.target.steps

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        """The continuous features."""
        return tuple(feature for feature in self.features if isinstance(feature, Numeric))

    @property
    def categorical(self) -> tuple[Categorical, ...]:
        """The discrete features, booleans included."""
        return tuple(feature for feature in self.features if isinstance(feature, Categorical))

    def feature(self, name: str) -> Feature | None:
        """Return the feature of that name, or None."""
        return next((feature for feature in self.features if feature.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values; `Schema.from_dict` reads it back the same."""
        from dpsql.schemaread import plain

        return plain(self)

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """Read a schema from plain values, as they stand in a YAML or JSON file.

        >>> Schema.from_dict({"label": "y", "classes": [0, 1],
        ...                   "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}}}).classes
        ('0', '1')
        """
        from dpsql.schemaread import read

        return read(declared)


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


def _check_texts(values: tuple[str, ...], where: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, str) and _storable(value) for value in values):
        raise SchemaError(f"{where}: values must be text without NUL or lone surrogate characters.")


def _storable(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)


def finite(value: object, where: str) -> float:
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
    """Return the place of a float in the order of all floats; both zeros share one."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _unrank(rank: int) -> float:
    return math.copysign(struct.unpack("<d", struct.pack("<q", abs(rank)))[0], rank)


def whole(value: object, where: str) -> int | None:
    """Return a whole number or None; refuse anything else."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise SchemaError(f"{where} must be a whole number.")
