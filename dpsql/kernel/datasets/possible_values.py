"""What a column can never hold, by its type in the catalog: such a declaration is refused before anything is charged.

A class or a value is compared with a cell as text. A cell of a BOOLEAN column has the texts `true` and `false` alone,
that of an INTEGER column is a whole number as it is usually written, that of an ENUM is one of its values. A declared
word that is none of these matches no row: a model would be trained on no rows, and be charged for.

No row is read here: whoever is refused learns what the catalog says, and nothing about rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal

from dpsql.engines.base import Column, TableInfo
from dpsql.engines.type_limits import TypeLimits, type_limits
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.word_offers import Words, fix_for_words, shown_list
from dpsql.schema import Categorical, Feature, Hashed, Numeric, Schema, Target
from dpsql.schema.problems import SchemaProblem


def impossible_declarations(info: TableInfo, schema: Schema) -> Iterator[SchemaProblem]:
    """Yield what the columns of a table can never hold, of all that a schema declares for them.

    The names of columns are those of the catalog. Any impossible word is a mistake here: an owner declares a column
    that is there.
    """
    label = info.column(schema.label) if schema.has_label else None
    if label is not None and schema.target is None:
        yield from _impossible_words(label, _classes(schema), every=True)
    elif label is not None and schema.target is not None:
        yield from _unreachable_target(label, schema.target)
    for feature in schema.features:
        column = info.column(feature.name)
        if column is not None and isinstance(feature, Numeric):
            yield from _unreachable_bounds(column, feature)
        elif column is not None and isinstance(feature, Categorical) and not isinstance(feature, Hashed):
            yield from _impossible_words(column, _values(feature), every=True)


def unreadable_features(info: TableInfo, schema: Schema) -> Iterator[SchemaProblem]:
    """Yield the categories of a model of which a table to score can hold none: each row would count as unknown.

    A table that can hold some of them fits: an ENUM of new rows may lack a value that the model knows.
    """
    for feature in schema.features:
        column = info.column(feature.name)
        if column is not None and isinstance(feature, Categorical) and not isinstance(feature, Hashed):
            yield from _impossible_words(column, _values(feature), every=False)


def unreadable_classes(column: Column, schema: Schema) -> Iterator[SchemaProblem]:
    """Yield the classes of a model, where the label's column of a table to measure it on can hold none of them."""
    if schema.target is None:
        yield from _impossible_words(column, _classes(schema), every=False)


def possible_texts(column: Column, texts: Iterable[str]) -> tuple[str, ...]:
    """Return those of some texts that a cell of a column can have, by its type."""
    limits = type_limits(column)
    return tuple(text for text in texts if _can_hold(column, limits, text))


def real_booleans(info: TableInfo, declared: Mapping[str, object]) -> Iterator[SchemaProblem]:
    """Yield the columns of texts or numbers for which a mapping in Python declares real booleans as words.

    YAML 1.1 reads `[no, yes]` as false and true: what the owner wrote is lost, and 'false' and 'true' would match no
    row that stores 'no' and 'yes'.
    """
    places: list[tuple[tuple[str, ...], object, object]] = [
        (("classes",), declared.get("label"), declared.get("classes"))
    ]
    features = declared.get("features")
    for name, details in features.items() if isinstance(features, Mapping) else ():
        if isinstance(details, Mapping):
            places.append((("features", str(name)), name, details.get("values")))
    for path, name, words in places:
        column = info.column(str(name))
        if column is not None and _has_booleans(words, column):
            what = "classes" if path == ("classes",) else "values"
            quoted = '{"true": "yes", "false": "no"}' if column.family == "boolean" else '["no", "yes"]'
            error = SchemaError(
                f'"{column.name}" is {column.type}, and its {what} are declared as real booleans, not as text: '
                "YAML 1.1 (yaml.safe_load) turns no and yes into booleans.",
                hint=f'name the file instead of its values (schema="FILE.yml"), or quote them: {what}: {quoted}',
            )
            yield SchemaProblem(path, error)


def _has_booleans(words: object, column: Column) -> bool:
    """Whether words are real booleans where they cannot be meant: on a column of no booleans, or as a mapping's words.

    A mapping from true and false to booleans says nothing, so that it was likely written with no and yes.
    """
    if isinstance(words, Mapping):
        meant = any(isinstance(word, bool) for word in words.values())
        return meant or (column.family != "boolean" and any(isinstance(text, bool) for text in words))
    if isinstance(words, str) or not isinstance(words, list | tuple):
        return False
    return column.family != "boolean" and any(isinstance(word, bool) for word in words)


def _classes(schema: Schema) -> Words:
    texts: dict[str, list[str]] = {word: [word] for word in schema.classes}
    for text, word in schema.class_synonyms:
        texts[word].append(text)
    return Words("classes", schema.label, texts)


def _values(feature: Categorical) -> Words:
    texts: dict[str, list[str]] = {word: [word] for word in feature.values}
    for text, word in feature.synonyms:
        texts[word].append(text)
    return Words("values", feature.name, texts)


def _impossible_words(column: Column, words: Words, *, every: bool) -> Iterator[SchemaProblem]:
    """Yield the words that no cell of a column can have as its text; with `every` any of them, else all or none."""
    limits = type_limits(column)
    never = [word for word, texts in words.texts.items() if not any(_can_hold(column, limits, text) for text in texts)]
    if not never or (not every and len(never) < len(words.texts)):
        return
    path = ("classes",) if words.key == "classes" else ("features", words.column, "values")
    message = (
        f"{words.what} can never hold the {words.key} {shown_list(never)}: the column is {column.type[:200]}, "
        f"{_what_it_holds(column, limits)}."
    )
    yield SchemaProblem(path, SchemaError(message, hint=fix_for_words(column, words, never, trained=not every)))


def _can_hold(column: Column, limits: TypeLimits, text: str) -> bool:
    if column.values:
        return text in column.values
    if column.family == "boolean":
        return text in ("true", "false")
    if column.family == "integer":
        return _is_integer_text(text) and _in_range(Decimal(text), limits)
    if column.family == "date":
        return _is_day(text)
    return limits.length is None or len(text) <= limits.length


def _what_it_holds(column: Column, limits: TypeLimits) -> str:
    """Return the texts that a column can hold, in words."""
    if column.values:
        return f"which holds only {shown_list(column.values)}"
    if column.family == "boolean":
        return 'which holds only "true" and "false"'
    if column.family == "integer":
        span = "" if limits.least is None else f" from {limits.least} to {limits.most}"
        return f"which holds whole numbers{span}, written as 7 or -7"
    if column.family == "date":
        return "which holds days, written as 2020-01-31"
    return f"which holds at most {limits.length} characters"


def _is_integer_text(text: str) -> bool:
    return re.fullmatch("0|-?[1-9][0-9]{0,99}", text) is not None


def _is_day(text: str) -> bool:
    """Whether a text is a day as databases write it; years before Christ, after 9999 and infinity are let through."""
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return bool(
            re.fullmatch(r"[+-]?[0-9]{5,}-[0-9]{2}-[0-9]{2}|[0-9]{4,}-[0-9]{2}-[0-9]{2} ?.*BC.*|-?infinity", text)
        )
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _in_range(number: Decimal, limits: TypeLimits) -> bool:
    return limits.least is None or limits.most is None or limits.least <= number <= limits.most


def _unreachable_bounds(column: Column, feature: Numeric) -> Iterator[SchemaProblem]:
    """Yield the bounds of a number where all values of the type would fall into one cell, or none between the bounds.

    Bounds that a type does not reach on one side are harmless, and accepted.
    """
    limits = type_limits(column)
    if limits.least is None or limits.most is None:
        return
    one_cell = feature.cell(float(limits.least)) == feature.cell(float(limits.most))
    yield from _bounds_problem(column, feature, limits, ("features", feature.name), one_cell=one_cell)


def _unreachable_target(column: Column, target: Target) -> Iterator[SchemaProblem]:
    limits = type_limits(column)
    if limits.least is None or limits.most is None:
        return
    one_step = target.step(float(limits.least)) == target.step(float(limits.most))
    yield from _bounds_problem(column, target, limits, ("target",), one_cell=one_step)


def _bounds_problem(
    column: Column, bounded: Feature | Target, limits: TypeLimits, path: tuple[str, ...], *, one_cell: bool
) -> Iterator[SchemaProblem]:
    assert isinstance(bounded, Numeric | Target)
    between = column.family != "integer" or math.ceil(bounded.lower) <= math.floor(bounded.upper)
    if between and not one_cell:
        return
    why = (
        f"{column.type} holds numbers from {limits.least} to {limits.most}: all would fall into one cell"
        if one_cell
        else f"no whole number lies between them, and {column.type} holds nothing else"
    )
    message = f'"{column.name}" can never lie between {bounded.lower:g} and {bounded.upper:g}: {why}.'
    yield SchemaProblem(path, SchemaError(message, hint="declare lower and upper in the column's own unit"))
