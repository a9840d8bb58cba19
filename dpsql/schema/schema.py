"""The public schema of a private table: features with their domains, classes or a target, the privacy unit.

Everything here is declared by the owner and public. No run looks it up in rows. Each feature has a
public grid of cells: a number falls into one of equal-width cells between its bounds, a category is its own
cell. Splits are made between cells, so that SQL, Python and every database agree on every row.

Values that do not fit what was declared are treated as follows:

- a number below `lower` or above `upper`, or infinite, is clamped into the first or last cell;
- a NULL or NaN number is taken as `lower`, or as the value declared with `null`;
- a NULL or unknown category has a cell of its own ("other"), or is taken as the value declared
  with `null` or `unknown`;
- a row whose label is NULL or not one of the classes, or whose unit is NULL, is not counted;
- a numeric target is clamped to its bounds, infinities too; a row whose target is NULL or NaN is not counted;
- where labels alone are private (`public_features`), every row counts whose label is not NULL: a label that is none of
  the classes counts as the first of them, and a target that is not a number counts as `lower`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpsql.errors import SchemaError
from dpsql.schema.features import Categorical, Feature, Numeric, Target, check_name, check_texts, whole_number
from dpsql.schema.plain_values import declared_fields, plain_values
from dpsql.schema.synonyms import Synonyms, check_synonyms
from dpsql.schema.unit import Unit

#: The most classes that a label may have.
MAX_CLASSES = 1024
#: The most features that a schema may declare.
MAX_FEATURES = 2000
#: The most conditions that a schema may declare.
MAX_CONDITIONS = 100
#: The most parts that a stored partition column may have.
MAX_PARTS = 10**6
#: The form of a condition's name: short and plain, so that no name can be mistaken for a condition.
_CONDITION_NAME = re.compile("[A-Za-z][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True)
class Schema:
    """What the owner declares about a private table; public from the moment it is registered.

    The label is one of the `classes`, or a number with the bounds of `target`; then there are no classes. A table that
    only helps to shape trees has no label at all. `public_features` says that labels alone are private. `disjoint_from`
    names tables that hold no row of any unit of this table. `conditions` are tests on rows, each with a name by which
    analysts may use it. `partition` names a column by which rows are dealt out to trees: by a hash of it, or with
    `parts` as it stands, part t to tree t (`compile/stored_parts.py`). `looked_up` names columns whose values the owner
    looked up in the rows: it is a remark on where domains come from, and two schemas that differ in it alone declare
    the same. `class_synonyms` are pairs of a stored text and the class that it means. `public_tables` are
    those of a view over several tables that hold no rows of anybody.
    """

    label: str
    classes: tuple[str, ...]
    features: tuple[Feature, ...]
    unit: Unit = field(default_factory=Unit)
    rows: int | None = None
    partition: str | None = None
    parts: int | None = None
    batch: str | None = None
    target: Target | None = None
    public_features: bool = False
    disjoint_from: tuple[str, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    looked_up: tuple[str, ...] = field(default=(), compare=False)
    class_synonyms: Synonyms = ()
    public_tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.label or self.classes or self.target:
            check_name(self.label)
            self._check_classes()
        check_texts(self.disjoint_from, "disjoint_from")
        check_texts(self.looked_up, "looked_up")
        check_texts(self.public_tables, "public_tables")
        self._check_conditions()
        if not isinstance(self.public_features, bool):
            raise SchemaError("public_features must be true or false.")
        if not 1 <= len(self.features) <= MAX_FEATURES:
            raise SchemaError(f"features: {len(self.features)} given; from 1 to {MAX_FEATURES} are possible.")
        self._check_columns()
        self._check_partition()
        if self.batch is not None:
            check_name(self.batch)
            if "=" in self.batch or self.batch.lower() == self.label.lower():
                raise SchemaError("batch: the column must not be the label, and its name must not hold a =.")
        if whole_number(self.rows, "rows") is not None and not 0 < (self.rows or 0) < 2**53:
            raise SchemaError("rows: the approximate public size must be a positive whole number.")

    def _check_partition(self) -> None:
        if self.partition is not None:
            check_name(self.partition)
        if whole_number(self.parts, "parts") is None:
            return
        if self.partition is None:
            raise SchemaError("parts: name the column that says the part.", hint="partition: {column: NAME, parts: 10}")
        if not 1 <= (self.parts or 0) <= MAX_PARTS:
            raise SchemaError(f"partition: parts must be a whole number from 1 to {MAX_PARTS}.")

    def _check_classes(self) -> None:
        check_texts(self.classes, "classes")
        if self.target is not None:
            if self.classes:
                raise SchemaError("a label has classes or a numeric target, not both.", hint="leave out one of them")
            return
        if not 2 <= len(self.classes) <= MAX_CLASSES:
            raise SchemaError(f"classes: {len(self.classes)} given; from 2 to {MAX_CLASSES} are possible.")
        if len(set(self.classes)) != len(self.classes):
            raise SchemaError("classes: a class is listed twice.")
        check_texts(tuple(text for pair in self.class_synonyms for text in pair), "classes")
        object.__setattr__(self, "class_synonyms", check_synonyms(self.class_synonyms, self.classes, "classes"))

    def _check_conditions(self) -> None:
        """Check how many there are, and their names; what each says is checked when the table is registered."""
        if len(self.conditions) > MAX_CONDITIONS:
            raise SchemaError(f"conditions: {len(self.conditions)} given; at most {MAX_CONDITIONS} are possible.")
        check_texts(tuple(text for _, text in self.conditions), "conditions")
        for name, _ in self.conditions:
            if not _CONDITION_NAME.fullmatch(name):
                raise SchemaError(f'conditions: "{name[:80]}" is no name: a letter, then letters, digits or _.')
        if len({name.lower() for name, _ in self.conditions}) < len(self.conditions):
            raise SchemaError("conditions: a name is listed twice (letter case does not count).")

    def condition(self, name: str) -> str | None:
        """Return the text of the condition of that name, or None; letter case does not count."""
        return next((text for declared_name, text in self.conditions if declared_name.lower() == name.lower()), None)

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
    def has_label(self) -> bool:
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

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Schema:
        """Return the schema with narrower bounds of some numeric features, which must lie within the declared ones.

        >>> Schema("y", ("a", "b"), (Numeric("x", 0, 64),)).with_bounds({"x": (8, 16)}).features[0].upper
        16.0
        """
        features: list[Feature] = []
        for feature in self.features:
            lower, upper = bounds.get(feature.name, (None, None))
            if lower is not None and upper is not None:
                if not isinstance(feature, Numeric) or not feature.lower <= lower < upper <= feature.upper:
                    raise SchemaError(f'feature "{feature.name}" cannot be narrowed to {lower} … {upper}.')
                features.append(replace(feature, lower=lower, upper=upper))
            else:
                features.append(feature)
        return replace(self, features=tuple(features))

    def feature(self, name: str) -> Feature | None:
        """Return the feature of that name, or None."""
        return next((feature for feature in self.features if feature.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values; `Schema.from_dict` reads it back the same."""
        return plain_values(self)

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """Read a schema from plain values, as they stand in a YAML or JSON file.

        >>> Schema.from_dict({"label": "y", "classes": [0, 1],
        ...                   "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}}}).classes
        ('0', '1')
        """
        return cls(**declared_fields(declared))
