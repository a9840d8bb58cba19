"""The public schema of a private table: features with their domains, classes, the privacy unit.

Everything here is declared by the owner and public. Nothing is ever looked up in rows. Each feature has a
public grid of cells: a number falls into one of equal-width cells between its bounds, a category is its own
cell. Splits are made between cells, so that SQL, Python and every database agree on every row.

Where values go that are not what was declared:

- a number below `lower` or above `upper`, or infinite, is clamped into the first or last cell;
- a NULL or NaN number is taken as `lower`, or as the value declared with `null`;
- a NULL or unknown category has a cell of its own ("other"), or is taken as the value declared
  with `null` or `unknown`;
- a row whose label is NULL or not one of the classes, or whose unit is NULL, is not counted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpsql.errors import SchemaError

#: Cells of a numeric feature's grid, and of one digit of a wide category: six bits in a packed word.
CELLS = 64
MAX_VALUES = 4096
MAX_CLASSES = 1024
MAX_FEATURES = 2000


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
                number = _finite(getattr(self, bound), f'feature "{self.name}": {bound}')
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
class Unit:
    """The privacy unit: one row (`column` is None), or all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; which ones is decided by a keyed hash.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.column is not None:
            check_name(self.column)
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise SchemaError("privacy_unit: max_rows must be a whole number from 1 to 1000000.")

    def __str__(self) -> str:
        return "row" if self.column is None else f'"{self.column}", at most {self.max_rows} rows each'

    @property
    def neighbours(self) -> str:
        """The neighbour relation in words, as printed on every model and every ledger entry."""
        if self.column is None:
            return "add or remove one row"
        return f'add or remove all rows of one "{self.column}" (at most {self.max_rows} are used)'


@dataclass(frozen=True)
class Schema:
    """What the owner declares about a private table; public from the moment it is registered."""

    label: str
    classes: tuple[str, ...]
    features: tuple[Feature, ...]
    unit: Unit = field(default_factory=Unit)
    rows: int | None = None
    partition: str | None = None
    batch: str | None = None

    def __post_init__(self) -> None:
        check_name(self.label)
        _check_texts(self.classes, "classes")
        if not 2 <= len(self.classes) <= MAX_CLASSES:
            raise SchemaError(f"classes: {len(self.classes)} given; from 2 to {MAX_CLASSES} are possible.")
        if len(set(self.classes)) != len(self.classes):
            raise SchemaError("classes: a class is listed twice.")
        if not 1 <= len(self.features) <= MAX_FEATURES:
            raise SchemaError(f"features: {len(self.features)} given; from 1 to {MAX_FEATURES} are possible.")
        self._check_columns()
        if self.partition is not None:
            check_name(self.partition)
        if self.batch is not None:
            check_name(self.batch)
            if "=" in self.batch or self.batch.lower() == self.label.lower():
                raise SchemaError("batch: the column must not be the label, and its name must not hold a =.")
        if _whole(self.rows, "rows") is not None and not 0 < (self.rows or 0) < 2**53:
            raise SchemaError("rows: the approximate public size must be a positive whole number.")

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
        unit: object = "row"
        if self.unit.column is not None:
            unit = {"column": self.unit.column, "max_rows": self.unit.max_rows}
        declared: dict[str, Any] = {"label": self.label, "classes": list(self.classes), "privacy_unit": unit}
        if self.rows is not None:
            declared["rows"] = self.rows
        if self.partition is not None:
            declared["partition"] = self.partition
        if self.batch is not None:
            declared["batch"] = self.batch
        declared["features"] = {feature.name: _feature_dict(feature) for feature in self.features}
        return declared

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """Read a schema from plain values, as they stand in a YAML or JSON file.

        >>> Schema.from_dict({"label": "y", "classes": [0, 1],
        ...                   "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}}}).classes
        ('0', '1')
        """
        if not isinstance(declared, Mapping):
            raise SchemaError("a schema must be a mapping with label, classes and features.")
        _only_known("the schema", declared, _SCHEMA_KEYS | _NOTES)
        for key in ("label", "classes", "features"):
            if key not in declared:
                raise SchemaError(f'the schema has no "{key}".', hint="dpsql schema draft --table TABLE")
        return cls(
            label=_column(declared["label"], "label"),
            classes=_texts(declared["classes"], "classes"),
            features=_features(declared["features"]),
            unit=_unit(declared),
            rows=_whole(declared.get("rows"), "rows"),
            partition=None if declared.get("partition") is None else _column(declared["partition"], "partition"),
            batch=None if declared.get("batch") is None else _column(declared["batch"], "batch"),
        )


_SCHEMA_KEYS = frozenset(
    ("label", "classes", "features", "privacy_unit", "max_rows_per_unit", "rows", "partition", "batch")
)
#: Keys that describe where a table came from; they are read past.
_NOTES = frozenset(
    ("file", "source", "source_commit", "columns", "n_numeric", "n_categorical", "complete_rows", "nulls")
) | frozenset(("class_counts", "note", "ignore", "mrf_cutoffs_from", "annotated_rows", "ambiguous_rows", "description"))
_FEATURE_KEYS = {
    "numeric": frozenset(("type", "lower", "upper", "lo", "hi", "cells", "null")),
    "categorical": frozenset(("type", "values", "null", "unknown", "lo", "hi")),
    "boolean": frozenset(("type", "null")),
}
_FEATURE_NOTES = frozenset(("domain_from", "mrf_cutoffs", "ordinal", "description"))


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


def _features(declared: object) -> tuple[Feature, ...]:
    if not isinstance(declared, Mapping):
        raise SchemaError("features must be a mapping from column name to its type and domain.")
    return tuple(_feature(_column(name, "features"), details) for name, details in declared.items())


def _feature(name: str, details: object) -> Feature:
    where = f'feature "{name}"'
    kind = details.get("type") if isinstance(details, Mapping) else None
    if not isinstance(details, Mapping) or not isinstance(kind, str) or kind not in _FEATURE_KEYS:
        raise SchemaError(f"{where}: type must be numeric, categorical or boolean.")
    _only_known(where, details, _FEATURE_KEYS[kind] | _FEATURE_NOTES)
    if kind == "numeric":
        return _numeric(name, details, where)
    null = _option(details, "null", where)
    if kind == "boolean":
        return Boolean(name, null=null)
    if "values" not in details:
        raise SchemaError(f"{where}: a categorical feature needs its public values.")
    return Categorical(name, _texts(details["values"], where), null=null, unknown=_option(details, "unknown", where))


def _numeric(name: str, details: Mapping[str, Any], where: str) -> Numeric:
    lower, upper = details.get("lower", details.get("lo")), details.get("upper", details.get("hi"))
    if lower is None or upper is None:
        raise SchemaError(f"{where}: a numeric feature needs public bounds, lower and upper.")
    bounds = (_finite(lower, f"{where}: lower"), _finite(upper, f"{where}: upper"))
    missing = None if details.get("null") is None else _finite(details["null"], f"{where}: null")
    return Numeric(name, *bounds, cells=details.get("cells", CELLS), null=missing)


def _unit(declared: Mapping[str, Any]) -> Unit:
    unit = declared.get("privacy_unit", "row")
    if unit == "row":
        return Unit()
    if isinstance(unit, str):
        unit = {"column": unit, "max_rows": declared.get("max_rows_per_unit")}
    if not isinstance(unit, Mapping) or "column" not in unit:
        raise SchemaError('privacy_unit must be "row" or {column: NAME, max_rows: NUMBER}.')
    _only_known("privacy_unit", unit, frozenset(("column", "max_rows", "max_rows_per_unit")))
    most = unit.get("max_rows", unit.get("max_rows_per_unit"))
    if most is None:
        raise SchemaError("privacy_unit: say how many rows of one unit may be used: max_rows.")
    return Unit(column=_column(unit["column"], "privacy_unit"), max_rows=most)


def _feature_dict(feature: Feature) -> dict[str, Any]:
    if isinstance(feature, Numeric):
        shown: dict[str, Any] = {"type": "numeric", "lower": feature.lower, "upper": feature.upper}
        if feature.cells != CELLS:
            shown["cells"] = feature.cells
    elif isinstance(feature, Boolean):
        shown = {"type": "boolean"}
    else:
        shown = {"type": "categorical", "values": list(feature.values)}
        if feature.unknown is not None:
            shown["unknown"] = feature.unknown
    if feature.null is not None:
        shown["null"] = feature.null
    return shown


def _texts(values: object, where: str) -> tuple[str, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise SchemaError(f"{where}: a list of values is needed.")
    return tuple(_text(value, where) for value in values)


def _text(value: object, where: str) -> str:
    """Return one declared value as text; lists, mappings and numbers too long to write down are refused."""
    if isinstance(value, int) and value.bit_length() > 1024:
        raise SchemaError(f"{where}: a number among the values is too long.")
    if isinstance(value, Iterable) and not isinstance(value, str):
        raise SchemaError(f"{where}: each value must be one text, number, true or false.")
    text = category_text(value)
    if text is None:
        raise SchemaError(f"{where}: NULL cannot be a declared value.", hint="quote it if it is text")
    return text


def _option(details: Mapping[str, Any], name: str, where: str) -> str | None:
    return None if details.get(name) is None else _text(details[name], f"{where}: {name}")


def _column(name: object, where: str) -> str:
    """Return a column's name; a number is taken as text, anything else is refused."""
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise SchemaError(f"{where}: a column's name must be text.", hint="quote the name")
    return _text(name, where)


def _check_texts(values: tuple[str, ...], where: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, str) and _storable(value) for value in values):
        raise SchemaError(f"{where}: values must be text without NUL or lone surrogate characters.")


def _storable(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)


def _finite(value: object, where: str) -> float:
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


def _whole(value: object, where: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise SchemaError(f"{where} must be a whole number.")


def _only_known(where: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    strange = sorted(str(key) for key in given if key not in known)
    if strange:
        raise SchemaError(f'{where}: "{strange[0]}" is not known. Known: {", ".join(sorted(known - _NOTES))}.')
