"""Conditions on a dataset's rows: the owner's, declared in the schema by name, and those that an analyst writes.

Both are written in the language of `compile/views/condition_text.py`; no SQL that a user wrote is evaluated on private
rows. They differ in what they may name:

- An analyst's condition may name the features, the unit's column, and the label to ask whether a row has one.
- An owner's condition, which is checked when the table is registered, may name any column of the table.

Where a unit has several rows and rows are private, a condition may read the unit's column alone, whoever wrote it,
because all rows of a unit must be on one side. Where labels alone are private, a condition may ask whether a row has a
label and nothing else about it, because the rows on the unlabelled side are read without noise.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.compile.rows import Source, has_label
from dpsql.compile.views.condition_sql import Cell, condition_sql
from dpsql.compile.views.condition_text import ALLOWED, Condition, NotACondition, RowTest, each_test, parse_condition
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.errors import ParameterError, SchemaError, UnknownName
from dpsql.kernel.datasets.dataset import Dataset, source_to_register
from dpsql.kernel.datasets.untyped_columns import UNTYPED, types_read
from dpsql.schema import Categorical, Schema
from dpsql.schema.synonyms import Synonyms

#: The family of an untyped column by the type that it is read as.
_FAMILY_OF_TYPE = {"DOUBLE": "real", "BOOLEAN": "boolean", "TIMESTAMP": "timestamp"}


def is_condition(text: str) -> bool:
    """Whether a text can be read as a condition, whatever columns it names."""
    try:
        parse_condition(text)
    except NotACondition:
        return False
    return True


def row_test(engine: Engine, dataset: Dataset, rows: Source, given: str, *, labels: bool) -> exp.Expr:
    """Return a declared condition, or one that an analyst wrote, as a test that is true or false for every row.

    `labels` says that labels alone are private. Raises ParameterError if the text is no condition, or reads columns
    that it may not read.
    """
    schema, declared, info = dataset.schema, dataset.schema.condition(given), _table(rows)
    try:
        condition = parse_condition(given if declared is None else declared)
        named = _spell_names(condition, info, _open_to_analysts(schema) if declared is None else _all_columns(info))
        _check_label(condition, named, schema, labels=labels, analyst=declared is None)
        _check_unit(named, schema, labels=labels)
        return _condition_sql(engine, condition, named, info, rows, schema, labels=labels)
    except NotACondition as problem:
        raise ParameterError(
            "unlabelled", allowed=f"a registered table, a declared condition, or {ALLOWED}; it {problem}", given=given
        ) from None


def check_conditions(engine: Engine, dataset: Dataset) -> None:
    """Raise SchemaError unless every condition of a schema can be parsed and fits the table's columns. Reads no row."""
    if not dataset.schema.conditions:
        return
    rows = source_to_register(engine, dataset)
    info = _table(rows)
    for name, text in dataset.schema.conditions:
        try:
            condition = parse_condition(text)
            _condition_sql(
                engine,
                condition,
                _spell_names(condition, info, _all_columns(info)),
                info,
                rows,
                dataset.schema,
                labels=False,
            )
        except NotACondition as problem:
            raise SchemaError(f'conditions: "{name}" cannot be used: it {problem}.', hint=f"write {ALLOWED}") from None


def _table(rows: Source) -> TableInfo:
    """Return what the catalog says of the table or view of some rows, which is the one that will be read."""
    info: TableInfo = rows.reads[0]
    return info


def _open_to_analysts(schema: Schema) -> list[str]:
    """Return the columns that an analyst's condition may name."""
    named = [schema.label, schema.unit.column, *(feature.name for feature in schema.features)]
    return [name for name in named if name]


def _all_columns(info: TableInfo) -> list[str]:
    """Return the names of all columns of a table."""
    return [column.name for column in info.columns]


def _spell_names(condition: Condition, info: TableInfo, allowed: list[str]) -> dict[str, str]:
    """Return the table's own spelling of each name that a condition uses, or raise UnknownName."""
    present = set(_all_columns(info))
    columns = [name for name in allowed if name in present]
    return {test.column: _catalog_name(test, columns) for test in each_test(condition)}


def _catalog_name(test: RowTest, columns: list[str]) -> str:
    """Return the column that a test names: exactly, or in another case if it is not quoted and one column fits."""
    same_letters = [name for name in columns if name.lower() == test.column.lower()]
    if test.column in columns:
        return test.column
    if len(same_letters) != 1 or test.quoted:
        hint = "the schema says what may be used"
        raise UnknownName("column for a condition called", test.column, columns, hint=hint)
    return same_letters[0]


def _check_label(
    condition: Condition, named: Mapping[str, str], schema: Schema, *, labels: bool, analyst: bool
) -> None:
    """Refuse a test on what a label says: an analyst's always, an owner's if labels alone are private."""
    reads = any(named[test.column] == schema.label and test.word != "null" for test in each_test(condition))
    if reads and labels:
        raise NotACondition(f'may read "{schema.label}" only as IS NULL or IS NOT NULL: labels are private')
    if reads and analyst:
        raise NotACondition(f'may read "{schema.label}" only as IS NULL or IS NOT NULL')


def _check_unit(named: Mapping[str, str], schema: Schema, *, labels: bool) -> None:
    """Refuse a condition that reads more than the unit's column, where a unit has several rows and rows are private."""
    if schema.unit.column is not None and not labels and set(named.values()) - {schema.unit.column}:
        raise NotACondition(f'must read "{schema.unit.column}" alone: all rows of a unit must be on one side')


def _condition_sql(
    engine: Engine,
    condition: Condition,
    named: Mapping[str, str],
    info: TableInfo,
    rows: Source,
    schema: Schema,
    *,
    labels: bool,
) -> exp.Expr:
    cells = {name: _cell(engine, column, info, rows, schema) for name, column in named.items()}
    if labels:
        _check_without_label(named, rows, schema)
    return condition_sql(condition, cells, engine.vocabulary)


def _cell(engine: Engine, name: str, info: TableInfo, rows: Source, schema: Schema) -> Cell:
    """Return a column as conditions see it, or raise NotACondition if a test on it could fail or be ambiguous."""
    column = next(column for column in info.columns if column.name == name)
    family = _family(column, info, schema)
    if column.computed or column.fallible:
        raise NotACondition(f'reads "{name}", which may fail on a row: it is computed, or a time in a file')
    if family == "text" and column.collation:
        raise NotACondition(f'reads "{name}", whose collation takes different texts for equal')
    number = rows.number(name, engine.vocabulary) if family == "real" else None
    missing = exp.not_(exp.paren(has_label(rows))) if name == schema.label else None
    unsigned = family == "integer" and column.type.split("(")[-1].upper().startswith("U")
    return Cell(family, rows.column(name), number, unsigned, missing, _synonyms(name, schema))


def _synonyms(name: str, schema: Schema) -> Synonyms:
    """Return the stored texts of a column that mean a declared word."""
    if name == schema.label:
        return schema.class_synonyms
    feature = schema.feature(name)
    return feature.synonyms if isinstance(feature, Categorical) else ()


def _family(column: Column, info: TableInfo, schema: Schema) -> str:
    """Return the family of a column's values as they are read; without a type, it is what the schema says, or text."""
    if column.family != UNTYPED:
        return column.family
    return _FAMILY_OF_TYPE.get(types_read(info, schema)[column.name], "text")


def _check_without_label(named: Mapping[str, str], rows: Source, schema: Schema) -> None:
    """Refuse a view's column that is computed from a column of its label: it would reveal private labels."""
    label = {column.name.lower() for column in rows.column(schema.label).find_all(exp.Column)}
    for name in set(named.values()) - {schema.label}:
        if any(column.name.lower() in label for column in rows.column(name).find_all(exp.Column)):
            raise NotACondition(f'reads "{name}", which is made of the label: labels are private')
