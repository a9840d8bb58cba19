"""Proposals from the catalog: keys, ENUM, BOOLEAN and CHECK, code tables, comments, identifiers by name, gaps by type.

No row of the drafted table is read. The values of a code table are read only where the owner declares it public.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from sqlglot import exp

from dpsql.compile.rows import table_reference
from dpsql.compile.vocabulary import column as column_reference
from dpsql.engines.base import Column, ColumnNote, Engine, TableInfo
from dpsql.ledger import Ledger
from dpsql.owner.drafts.checked_domains import CheckedDomain, checked_domains, listed_values, numeric_bounds
from dpsql.owner.drafts.column_comments import from_comment, shown_comment
from dpsql.owner.drafts.identifier_names import name_words, why_identifier
from dpsql.owner.drafts.proposal import (
    FEATURE,
    GAP,
    IDENTIFIER,
    LEFT_OUT,
    Domain,
    Proposal,
    Source,
    as_number,
    from_bounds,
    from_values,
)
from dpsql.owner.drafts.public_tables import find_public_table
from dpsql.schema.features import MAX_VALUES, category_text

Notes = Mapping[str, ColumnNote]
#: What a text column can be whose values nobody can list: a public hash into cells.
HASHED: Domain = {"type": "hashed", "cells": 63}
#: What integers that look like codes can be.
CODES: Domain = {"type": "categorical", "values": [1, 2, 3]}
#: What a column of dates could be instead.
DAYS: Domain = {"type": "categorical", "values": ["2020-01-31"]}
#: Words in the names of columns whose integers are codes more often than amounts.
_CODE_WORDS = frozenset(
    [
        "sex",
        "gender",
        "education",
        "code",
        "type",
        "kind",
        "status",
        "category",
        "group",
        "level",
        "grade",
        "race",
        "ethnicity",
        "region",
        "month",
        "weekday",
        "quarter",
        "flag",
        "marital",
        "class",
        "state",
        "stage",
        "rating",
    ]
)
#: Those of them whose order means something: as numbers they keep it.
_ORDERED_WORDS = frozenset(["education", "level", "grade", "stage", "rating", "month", "weekday", "quarter"])
_SMALL_INTEGER = re.compile(r"\b(u?tinyint|smallint|u?int8)\b", re.IGNORECASE)
_TIME = re.compile(r"timestamp|datetime", re.IGNORECASE)


def key_source(notes: Notes) -> Source:
    """Return the source that leaves out columns with a PRIMARY KEY or UNIQUE constraint of their own."""

    def propose(column: Column) -> Proposal | None:
        unique = notes.get(column.name, ColumnNote()).unique
        return Proposal(column.name, IDENTIFIER, origin="catalog: a key, no two rows share a value") if unique else None

    return propose


def constraint_source(info: TableInfo, dialect: str) -> Source:
    """Return the source of what types and constraints say for sure: BOOLEAN, ENUM, CHECK."""
    domains = checked_domains(info.checks, dialect)

    def propose(column: Column) -> Proposal | None:
        if column.family == "boolean":
            return Proposal(column.name, FEATURE, {"type": "boolean"}, origin="catalog: BOOLEAN")
        if column.values:
            return from_values(column, column.values, "catalog: ENUM")
        domain = domains.get(column.name.lower(), CheckedDomain())
        values = listed_values(domain) if column.family != "real" else ()
        if values:
            return from_values(column, values, "catalog: CHECK")
        bounds = numeric_bounds(domain, integer=column.family == "integer")
        return from_bounds(column, bounds["lower"], bounds["upper"], "catalog: CHECK")

    return propose


def code_table_source(engine: Engine, ledger: Ledger, info: TableInfo, notes: Notes, public: Collection[str]) -> Source:
    """Return the source that lists the values of code tables, which foreign keys lead to and the owner calls public.

    A table that is not declared public is not read; the proposal says how to declare it.
    """
    public_tables = [find_public_table(engine, ledger, info, name) for name in public]
    tables = {(code_table.schema, code_table.table) for code_table in public_tables}

    def propose(column: Column) -> Proposal | None:
        place = notes.get(column.name, ColumnNote()).references
        if place is None:
            return None
        schema, table, referenced = place
        if (schema, table) not in tables:
            blank = {"type": "categorical", "values": GAP}
            origin, advice = f"catalog: FOREIGN KEY to {table}", _public_if(table)
            return Proposal(column.name, FEATURE, blank, origin=origin, advice=advice) if _listable(column) else None
        query = exp.select(column_reference(referenced)).from_(table_reference(table, schema)).limit(MAX_VALUES + 1)
        texts = [category_text(value) for value in engine.frame(query.distinct()).iloc[:, 0]]
        values = sorted({text for text in texts if text is not None}, key=natural_order)
        return from_values(column, values, f"code table {table}")

    return propose


def _public_if(table: str) -> str:
    return f"if {table} is a public code table: --public-table {table}"


def _listable(column: Column) -> bool:
    return column.family in ("text", "integer", "untyped")


def name_source(notes: Notes) -> Source:
    """Return the source that leaves out what looks like an identifier of a person by its name and type."""

    def propose(column: Column) -> Proposal | None:
        kind = why_identifier(column)
        if kind is None:
            return None
        place = notes.get(column.name, ColumnNote()).references
        how = "type" if column.family == "other" else "name"
        advice = "" if place is None else _public_if(place[1])
        return Proposal(column.name, IDENTIFIER, origin=f"{kind}, by its {how}", advice=advice)

    return propose


def comment_source(notes: Notes) -> Source:
    """Return the source of domains that people wrote into the comments of columns."""

    def propose(column: Column) -> Proposal | None:
        comment = notes.get(column.name, ColumnNote()).comment
        return from_comment(column, comment) if comment.strip() else None

    return propose


def type_source(notes: Notes) -> Source:
    """Return the last source, which knows every column: gaps by type, or why the column can be no feature."""

    def propose(column: Column) -> Proposal:
        if _unfit(column):
            return Proposal(column.name, LEFT_OUT, origin=f"type {column.type[:60]} can be no feature")
        comment = notes.get(column.name, ColumnNote()).comment
        origin = f"catalog: comment {shown_comment(comment)}" if comment.strip() else ""
        return Proposal(column.name, FEATURE, _blank(column), _alternatives(column), origin, _ADVICE[_kind(column)])

    return propose


def _unfit(column: Column) -> bool:
    unfit = column.family == "opaque" or (column.family == "other" and _TIME.search(column.type) is None)
    return unfit or bool(column.collation) or column.computed or column.fallible


def _kind(column: Column) -> str:
    """Return the type of feature that a column without a known domain is drafted as."""
    if column.family == "date":
        return "date"
    if column.family in ("integer", "real"):
        return "numeric"
    if column.family in ("text", "untyped"):
        return {"text": "categorical", "untyped": "untyped"}[column.family]
    return "timestamp"


def _blank(column: Column) -> Domain:
    kind = _kind(column)
    if kind == "untyped":
        return {"type": GAP}
    return {"type": kind, "values": GAP} if kind == "categorical" else {"type": kind, "lower": GAP, "upper": GAP}


def _alternatives(column: Column) -> tuple[Domain, ...]:
    if column.family == "text":
        return (HASHED,)
    if column.family == "date":
        return (DAYS,)
    return (CODES,) if looks_like_codes(column) else ()


def looks_like_codes(column: Column) -> bool:
    """Whether the integers of a column are codes rather than amounts, by its name or a very small type.

    >>> [looks_like_codes(Column(name, "BIGINT", "integer")) for name in ("education_level", "balance")]
    [True, False]
    """
    small = _SMALL_INTEGER.search(column.type) is not None
    return column.family == "integer" and (small or bool(_CODE_WORDS & set(name_words(column.name))))


def is_ordered(column: Column) -> bool:
    """Whether the codes of a column have an order by its name, so that bounds tell more than a list.

    >>> [is_ordered(Column(name, "BIGINT", "integer")) for name in ("education_level", "sex")]
    [True, False]
    """
    return bool(_ORDERED_WORDS & set(name_words(column.name)))


def natural_order(text: str) -> tuple[int, float, str]:
    """Return a key that sorts numbers by size, before other texts.

    >>> sorted(["b", "10", "9", "a"], key=natural_order)
    ['9', '10', 'a', 'b']
    """
    number = as_number(text)
    return (1, 0.0, text) if number is None else (0, float(number), text)


_ADVICE = {
    "categorical": "list the public values",
    "numeric": "write the public bounds; values beyond are clamped",
    "date": "write the public bounds, as in 2020-01-31",
    "timestamp": "write the public bounds, as in 2020-01-31",
    "untyped": "its file gives no type: numeric, categorical, hashed, date or boolean",
}
