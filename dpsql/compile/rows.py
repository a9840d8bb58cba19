"""Where rows come from: a table or a row-to-row view, its columns, and each row's cells packed into words.

The first part of every statement is the same: read the private table once, keep the rows that count (a known label, a
unit that is not NULL, at most `max_rows` of each unit), and turn each into a class number, a ticket for its partition
and a few 64-bit words of cells. A numeric target takes the place of the class, as whole steps above its lower bound. No
cast here can fail, whatever a cell holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from dpsql.compile.hashed_cells import hashed_cell_expression
from dpsql.compile.stored_parts import PART, stored_part
from dpsql.compile.vocabulary import Vocabulary, case, column, double, int_literal, name_as, paren
from dpsql.compile.word_text import word_text
from dpsql.schema import CELLS, Categorical, Dated, Hashed, Numeric, Schema, Target
from dpsql.spelling import split_catalog
from dpsql.trees.grid import AXES_PER_WORD, BITS, Axis, axes, words

#: The CTE of the packed rows.
PACKED = "packed"
#: How many cells of numbers are added up as doubles before one cast: sums below 64^8 = 2^48 are exact.
_CELLS_PER_CAST = 8
#: The subquery that numbers the rows of each unit, of which at most `max_rows` are used.
CAPPED = "chosen"


@dataclass(frozen=True, eq=False)
class Source:
    """A table to count or score: where it is, and what each schema column is in it.

    - `columns` maps a column of the schema to its expression: itself for a table, its definition for a view.
    - `table` is a table, or the rows of a view over several tables (`compile/views/unit_relations.py`).
    - `where` is a view's own filter.
    - `integers` names the columns of integer type, which cannot hold NaN; `decimals` names the columns whose type holds
      numbers that no double can.
    - If `labelled` is false, the label is not read at all: every row counts, each with class 0.
    - If `every_label` is true, every row that has a label counts, whatever the label says (see `known_label`).
    - `cached_rows` names a workspace table that has the packed rows already.
    - `known_by` names the columns that tell rows apart where rows have no address: those of all registered features, of
      which `schema` may have only some.
    - If `literal` is true, each leaf is counted by a statement of its own (`compile/count/literal.py`).
    - `reads` is what the catalog said of the table (and of the view onto it) before the charge: the database is asked
      whether that still holds.
    - `types` are the types of columns in the database's own words, as far as they are known: one of dates or times is
      read by its type.
    """

    schema: Schema
    table: exp.Table | exp.Subquery
    columns: Mapping[str, exp.Expr]
    where: exp.Expr | None = None
    integers: frozenset[str] = frozenset()
    decimals: frozenset[str] = frozenset()
    labelled: bool = True
    every_label: bool = False
    cached_rows: str = ""
    known_by: tuple[str, ...] = ()
    literal: bool = False
    reads: tuple[Any, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def with_value(self, name: str, value: str) -> Source:
        """Return the source restricted to rows whose column, as text, equals this value."""
        return self.where_also(_text(self.column(name)).eq(exp.Literal.string(value)))

    def where_also(self, test: exp.Expr) -> Source:
        """Return the source restricted to rows that also pass a test."""
        return replace(self, where=test if self.where is None else exp.and_(self.where.copy(), test))

    def column(self, name: str) -> exp.Expr:
        """Return the expression of a column of the schema."""
        expression = self.columns.get(name)
        return column(name) if expression is None else expression.copy()

    def number(self, name: str, vocabulary: Vocabulary) -> exp.Expr:
        """Return a column of numbers as a double; a date or timestamp is a number of units since 1970."""
        feature = self.schema.feature(name)
        if isinstance(feature, Dated):
            seconds = vocabulary.seconds(self.column(name), self.types.get(name, feature.kind))
            if feature.seconds_per_unit == 1:
                return paren(seconds)
            return paren(exp.Div(this=seconds, expression=double(feature.seconds_per_unit), typed=True))
        return vocabulary.number(self.column(name), decimal=name in self.decimals)

    def never_nan(self, feature: Numeric) -> bool:
        """Whether a feature's column can hold no NaN: integers, dates and times."""
        return feature.name in self.integers or isinstance(feature, Dated)


@dataclass(frozen=True)
class Tickets:
    """The secret keys of the hash that gives each unit its ticket; new for each session, never stored or shown."""

    keys: tuple[int | str, ...]

    def __repr__(self) -> str:
        return "<Tickets>"


@dataclass(frozen=True)
class Part:
    """Part number `index` of `of` disjoint parts of the units; `side` names the source of its rows.

    The upper half of a unit's ticket says which part the unit is in.
    """

    index: int = 0
    of: int = 1
    side: str = ""


EVERY_UNIT = Part()


def table_reference(name: str, schema: str | None = None) -> exp.Table:
    """Return a quoted table reference, qualified so that no CTE or temporary table can take its place."""
    catalog, inner = (None, None) if schema is None else split_catalog(schema)
    return exp.table_(name, db=inner, catalog=catalog, quoted=True)


def pack_rows(source: Source, vocabulary: Vocabulary, tickets: Tickets, part: Part = EVERY_UNIT) -> exp.Select:
    """Return the rows that count, of one part of the units: `class`, `ticket` (a hash of the unit), `word_0`, …

    With a numeric target `class` is its number of steps, from 0 to the declared `steps`.
    """
    if source.cached_rows:
        names = packed_names(source.schema)
        return _rows_of_part(exp.select(*names).from_(source.cached_rows), part, exp.column("ticket"))
    return _rows(source, vocabulary, tickets, part, packed_words(source, vocabulary))


def packed_names(schema: Schema) -> list[str]:
    """Return the names of the columns of packed rows."""
    part = [] if schema.parts is None else [PART]
    return ["class", "ticket", *part, *(word_name(number) for number in range(words(len(axes(schema)))))]


def counted_rows(
    source: Source, vocabulary: Vocabulary, tickets: Tickets, part: Part = EVERY_UNIT, *, cells: Sequence[exp.Expr] = ()
) -> exp.Select:
    """Return the rows that `pack_rows` returns, but without packed words, or with other columns in their place."""
    if source.cached_rows:
        return pack_rows(source, vocabulary, tickets, part)
    return _rows(source, vocabulary, tickets, part, cells)


def _rows(
    source: Source, vocabulary: Vocabulary, tickets: Tickets, part: Part, cells: Sequence[exp.Expr]
) -> exp.Select:
    unit, ticket = source.schema.unit, _ticket(source, vocabulary, tickets)
    first = [name_as(class_number(source, vocabulary), "class"), name_as(ticket, "ticket")]
    if source.schema.partition is not None and source.schema.parts is not None:
        first.append(name_as(stored_part(source.column(source.schema.partition), source.schema.parts), PART))
    query = exp.Select().select(*first, *cells, copy=False).from_(source.table.copy(), copy=False)
    query = _rows_of_part(query, part, ticket)
    if source.where is not None:
        query = query.where(source.where.copy(), copy=False)
    if source.labelled:
        query = query.where(known_label(source, vocabulary), copy=False)
    if unit.column is None:
        return query
    query = query.where(source.column(unit.column).is_(exp.null()).not_(), copy=False)
    return _cap_units(query, source, vocabulary, tickets)


def _rows_of_part(query: exp.Select, part: Part, ticket: exp.Expr) -> exp.Select:
    """Restrict a query to the units of one part, before anything else is computed from their rows."""
    if part.of == 1:
        return query
    upper = paren(exp.BitwiseRightShift(this=ticket.copy(), expression=int_literal(32)))
    return query.where(exp.Mod(this=upper, expression=int_literal(part.of)).eq(int_literal(part.index)), copy=False)


def class_number(source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return what stands for a row's label: the number of its class, or the steps of a numeric target."""
    if not source.labelled:
        return int_literal(0)
    target = source.schema.target
    if target is None:
        position = class_position(source, vocabulary)
        return exp.Coalesce(this=position, expressions=[int_literal(0)]) if source.every_label else position
    steps = target_steps(target, source.number(source.schema.label, vocabulary), vocabulary)
    return case([(_known_number(source, vocabulary), steps)], int_literal(0)) if source.every_label else steps


def packed_words(source: Source, vocabulary: Vocabulary) -> list[exp.Expr]:
    """Return the words of a row, each named `word_k`: ten axes of six bits each.

    Cells of numbers are doubles. Up to eight of them are added up first, each times its power of 64 (exact: below
    2^48), so that one cast serves them all.
    """
    all_axes = axes(source.schema)
    starts = range(0, len(all_axes), AXES_PER_WORD)
    return [
        name_as(_word(source, vocabulary, all_axes[start : start + AXES_PER_WORD]), word_name(number))
        for number, start in enumerate(starts)
    ]


def _word(source: Source, vocabulary: Vocabulary, axes_of_word: Sequence[Axis]) -> exp.Expr:
    parts: list[exp.Expr] = []
    sums: dict[int, list[exp.Expr]] = {}
    for place, axis in enumerate(axes_of_word):
        feature = source.schema.features[axis.feature]
        if isinstance(feature, Numeric):
            cell = numeric_cell(feature, source, vocabulary)
            if vocabulary.row_by_row or vocabulary.step:
                parts.append(_shift_left(vocabulary.word(cell), BITS * place))
                continue
            first = place - place % _CELLS_PER_CAST
            power = double(CELLS ** (place - first))
            sums.setdefault(first, []).append(cell if place == first else exp.Mul(this=cell, expression=power))
        else:
            parts.append(_shift_left(category_digit(feature, axis.digit, source, vocabulary), BITS * place))
    parts += [_shift_left(vocabulary.word(_sum(cells)), BITS * first) for first, cells in sums.items()]
    return _or_bits(parts)


def word_name(number: int) -> str:
    """Return the name of a packed word's column."""
    return f"word_{number}"


def category_digit(feature: Categorical, digit: int, source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return one base-64 digit of a category's cell as a word-sized integer from 0 to 63."""
    cell = vocabulary.word(category_cell(feature, source, vocabulary))
    if feature.cells <= CELLS:
        return cell
    moved = paren(exp.BitwiseRightShift(this=cell, expression=int_literal(BITS * digit))) if digit else cell
    return paren(exp.BitwiseAnd(this=moved, expression=int_literal(CELLS - 1)))


def class_position(source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return the number of a row's class, NULL for a label that is none of the classes."""
    return vocabulary.position(source.schema.classes, label_text(source))


def label_text(source: Source) -> exp.Expr:
    """Return a row's label as text, with classes in place of their synonyms."""
    return word_text(source.column(source.schema.label), source.schema.class_synonyms)


def has_label(source: Source) -> exp.Expr:
    """Return the test that a row has a label: no cell that the label is read from is NULL.

    The test does not depend on what a label says: a text that is none of the classes, a number that is NaN and a cell
    of CSV that holds no number are labels like all others. A view may compute its label from several columns, or turn
    some values into NULL; therefore the test looks for NULLs in the columns that the label is computed from.
    """
    columns = {column.name: column for column in source.column(source.schema.label).find_all(exp.Column)}
    tests = [columns[name].copy().is_(exp.null()).not_() for name in sorted(columns)]
    return exp.and_(*tests) if tests else exp.true()


def known_label(source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return the condition that a row counts: its label is one of the classes, or a number that is not NaN.

    Where neighbours differ in labels alone (`every_label`), a row that has a label must count whatever the label says.
    A label that is none of the classes counts as the first class, and a target that is not a number counts as `lower`.
    A change of a label then moves a row from one cell to another, never into the counts or out of them.
    """
    if source.every_label:
        return has_label(source)
    if source.schema.target is not None:
        return _known_number(source, vocabulary)
    if vocabulary.row_by_row:
        classes = [exp.Literal.string(name) for name in source.schema.classes]
        return exp.In(this=label_text(source), expressions=classes)
    return class_position(source, vocabulary).is_(exp.null()).not_()


def _known_number(source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return the test that a numeric target is a number: neither NULL nor NaN."""
    not_null = source.column(source.schema.label).is_(exp.null()).not_()
    if source.schema.label in source.integers:
        return not_null
    return exp.and_(not_null, exp.not_(vocabulary.is_nan(source.number(source.schema.label, vocabulary))))


def target_steps(target: Target, number: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    """Return a double as whole steps above the lower bound: clamped first, then rounded, so that the cast cannot fail.

    A row with NULL or NaN is left out by `known_label`, or counted as `lower` by `_class`; here it would become one of
    the bounds.
    """
    bounded = vocabulary.clamp(number, target.lower, target.upper)
    above = paren(exp.Sub(this=bounded, expression=double(target.lower)))
    scaled = exp.Mul(this=above.copy(), expression=double(target.scale))
    branches = [
        # Less than a quarter of a step counts as 0, and is never multiplied: PostgreSQL fails on products near 0.
        (exp.LT(this=above, expression=double(0.25 / target.scale)), double(0)),
        (exp.LT(this=scaled, expression=double(target.steps)), scaled.copy()),
    ]
    clamped = case(branches, double(target.steps))
    return exp.cast(exp.Floor(this=exp.Add(this=clamped, expression=double(0.5))), exp.DataType.Type.BIGINT)


def numeric_cell(feature: Numeric, source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a number; the expression is total: NULL, NaN, infinities and outliers have a cell too."""
    value, number = source.column(feature.name), source.number(feature.name, vocabulary)
    never_nan = source.never_nan(feature)
    if vocabulary.row_by_row:
        bucket = vocabulary.row_by_row.bucket(number, feature.edges)
        cell = exp.Coalesce(this=bucket, expressions=[int_literal(feature.null_cell)])
        if never_nan or feature.null_cell == feature.cells - 1:
            return cell
        return case([(vocabulary.is_nan(number.copy()), int_literal(feature.null_cell))], cell)
    scaled = exp.Mul(
        this=paren(exp.Sub(this=number, expression=double(feature.lower))), expression=double(feature.scale)
    )
    if vocabulary.step:
        return vocabulary.step(scaled, feature.cells, feature.null_cell)
    missing: exp.Expr = value.is_(exp.null())
    if not never_nan:
        missing = exp.or_(missing, vocabulary.is_nan(number.copy()))
    # Most rows take the first branch; LEAST and GREATEST would cost more than all the rest of the expression.
    inside = exp.And(
        this=exp.GTE(this=scaled, expression=double(0)),
        expression=exp.LT(this=scaled.copy(), expression=double(feature.cells)),
    )
    branches = [
        (inside, exp.Floor(this=scaled.copy())),
        (missing, double(feature.null_cell)),
        (exp.LT(this=scaled.copy(), expression=double(0)), double(0)),
    ]
    return case(branches, double(feature.cells - 1))


def category_cell(feature: Categorical, source: Source, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a category; the expression is total: NULL and unknown values have a cell too."""
    value = source.column(feature.name)
    if isinstance(feature, Hashed):
        return hashed_cell_expression(feature, value, vocabulary)
    cell = exp.Coalesce(
        this=vocabulary.position(feature.values, word_text(value, feature.synonyms)),
        expressions=[int_literal(feature.unknown_cell)],
    )
    if feature.null_cell == feature.unknown_cell:
        return cell
    return case([(value.is_(exp.null()), int_literal(feature.null_cell))], cell)


def _ticket(source: Source, vocabulary: Vocabulary, tickets: Tickets) -> exp.Expr:
    """Return a keyed hash of the unit, a declared partition column or the row itself; it depends on that unit alone.

    A column that says the part itself has too few values to hash: it decides on the tree, never on the ticket.
    """
    hashed_partition = source.schema.partition if source.schema.parts is None else None
    name = source.schema.unit.column or hashed_partition
    if name is None:
        return vocabulary.keyed_hash(_row_identity(source, vocabulary), tickets.keys)
    ticket = vocabulary.keyed_hash([source.column(name)], tickets.keys)
    if source.schema.unit.column is not None:
        return ticket
    by_row = vocabulary.keyed_hash(_row_identity(source, vocabulary), tickets.keys)
    return exp.case().when(source.column(name).is_(exp.null()), by_row).else_(ticket)


def _row_identity(source: Source, vocabulary: Vocabulary) -> list[exp.Expr]:
    """Return what identifies a row: its address in the database, or its features where rows have no address.

    The label is no part of it: rows that differ in their label alone go to the same tree, which then sees how often
    each label occurs.
    """
    address = vocabulary.row_address()
    return _contents(source) if address is None else [address]


def _contents(source: Source) -> list[exp.Expr]:
    """Return the features of a row: all registered ones in their order, whichever of them a method asks about.

    If only the features that are asked about were hashed, then a method that asks about other features would deal out
    the same rows in another way, and a unit would be in several parts that are charged as disjoint ones.
    """
    names = source.known_by or tuple(feature.name for feature in source.schema.features)
    return [source.column(name) for name in names]


def _cap_units(query: exp.Select, source: Source, vocabulary: Vocabulary, tickets: Tickets) -> exp.Select:
    """Restrict a query to at most `max_rows` rows of each unit, chosen by a keyed hash of their contents, not by order.

    Where labels alone are private, the label is no part of these contents: another label must not bring in another row.
    """
    hashed_columns = _contents(source)
    if source.labelled and not source.schema.public_features:
        hashed_columns.insert(0, source.column(source.schema.label))
    turn = exp.Window(
        this=exp.RowNumber(),
        partition_by=[source.column(str(source.schema.unit.column))],
        order=exp.Order(expressions=[exp.Ordered(this=vocabulary.keyed_hash(hashed_columns, tickets.keys[::-1]))]),
    )
    names = [projection.alias_or_name for projection in query.selects]
    return (
        exp.select(*(exp.column(name) for name in names))
        .from_(query.select(exp.alias_(turn, "turn")).subquery(CAPPED))
        .where(exp.LTE(this=exp.column("turn"), expression=int_literal(source.schema.unit.max_rows)))
    )


def _text(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.Type.TEXT)


def _shift_left(cell: exp.Expr, places: int) -> exp.Expr:
    return paren(exp.BitwiseLeftShift(this=cell, expression=int_literal(places))) if places else cell


def _sum(parts: Sequence[exp.Expr]) -> exp.Expr:
    total = parts[0]
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part)
    return total


def _or_bits(parts: Sequence[exp.Expr]) -> exp.Expr:
    word = parts[0]
    for part in parts[1:]:
        word = exp.BitwiseOr(this=word, expression=part)
    return word
