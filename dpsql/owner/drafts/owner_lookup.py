"""Looks up the distinct values of columns for the owner, who declares the list of values public knowledge.

This is the one place where a draft reads rows of a private table. It is outside the guarantee: a value that only one
person has becomes public with the schema. So it happens only for columns that the owner names, is refused for what
looks like an identifier, is an entry of the ledger, and every certificate of a model of these rows names the columns. A
column that is refused after its rows were read is such an entry and is named as well: the refusal depends on the rows.
Errors say that a column was refused and why, never a value or a number of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.rows import table_reference
from dpsql.compile.vocabulary import column as column_reference
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.errors import DpsqlError, SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.column_checks import HINT
from dpsql.kernel.datasets.identity import Base
from dpsql.kernel.datasets.looked_up_columns import lookup_details
from dpsql.kernel.datasets.view_datasets import unfold
from dpsql.ledger import Entry, Ledger
from dpsql.owner.drafts.catalog_sources import natural_order
from dpsql.owner.drafts.identifier_names import why_identifier
from dpsql.owner.drafts.proposal import Proposal, Source, from_values
from dpsql.schema.features import category_text

#: A list of more values than this names people more often than kinds of things.
MOST_VALUES = 1000
#: A longer text is no category, in characters.
LONGEST_VALUE = 200
#: Where more than this share of the values stands in one row alone, they are taken for an identifier's.
SHARE_OF_SINGLES = 0.5
_FAMILIES = ("text", "integer", "untyped")
#: The origin of a domain in a plan, which looks nothing up.
LOOKED_UP_LATER = "its values will be looked up in the rows, for the owner"


@dataclass(frozen=True)
class Lookup:
    """The values of each column that was looked up, and the number of the ledger entry that says so."""

    values: dict[str, list[str]]
    entry: int


def look_up_values(
    engine: Engine, ledger: Ledger, info: TableInfo, columns: Sequence[str], *, keys: Collection[str], who: str
) -> Lookup:
    """Read the distinct values of some columns, enter the act into the ledger, and return the values.

    All columns or none: where one is refused, no values are returned. A refusal after rows were read tells something of
    them, so it is entered too, with the columns that were read. One scan for each column. `keys` are columns that the
    catalog says are unique.
    """
    base = info if info.kind == "table" else unfold(engine, info)[0]
    if info.unfit:
        raise SchemaError(f'"{info.name}" {info.unfit}.', hint=info.remedy or HINT)
    named = check_columns(info, columns, keys)
    ledger.install()  # a ledger that cannot be written refuses before a row is read
    ledger.upgrade()

    def record(counts: Mapping[str, int | None], refused: str | None) -> Entry:
        return ledger.record_lookup(
            info.name, lambda into: lookup_details(Base.of(engine.identify(into, base)), counts, refused), who
        )

    values: dict[str, list[str]] = {}
    for column in named:
        try:
            values[column.name] = _distinct_values(engine, info, column)
        except DpsqlError as error:
            entry = record(dict.fromkeys([*values, column.name]), column.name)
            error.message += f" Rows were read for this: entry {entry.entry_id} of the ledger says so."
            raise
    return Lookup(values, record({name: len(texts) for name, texts in values.items()}, None).entry_id)


def lookup_source(lookup: Lookup) -> Source:
    """Return the source of values that were looked up."""

    def propose(column: Column) -> Proposal | None:
        values = lookup.values.get(column.name)
        return from_values(column, values, f"looked up by the owner, entry {lookup.entry}") if values else None

    return propose


def check_columns(info: TableInfo, columns: Sequence[str], keys: Collection[str]) -> list[Column]:
    """Return the columns whose values are to be looked up, or refuse one by its name or type. Reads no row."""
    return [_check_column(info, name, keys) for name in dict.fromkeys(columns)]


def rehearsed_source(columns: Collection[Column]) -> Source:
    """Return the source that stands for a lookup which did not happen: each list is two values that its type can have.

    What the catalog lists, an ENUM, is left to the catalog.
    """
    names = {column.name for column in columns if not column.type.upper().startswith("ENUM")}

    def propose(column: Column) -> Proposal | None:
        stand_in = ["0", "1"]
        return from_values(column, stand_in, LOOKED_UP_LATER) if column.name in names else None

    return propose


def _check_column(info: TableInfo, name: str, keys: Collection[str]) -> Column:
    """Return a column whose values may be looked up, or refuse it by its name and type, before any row is read."""
    column = info.column(name)
    if column is None:
        raise UnknownName(f'column in table "{info.name}" called', name, (entry.name for entry in info.columns))
    kind = "an identifier" if column.name in keys else why_identifier(column)
    if kind is not None:
        raise _refusal(column, f"looks like {kind}")
    if column.family not in _FAMILIES or column.collation or column.computed or column.fallible:
        raise _refusal(column, f"is {column.type[:60]}, and only texts and integers have a list of values")
    return column


def _distinct_values(engine: Engine, info: TableInfo, column: Column) -> list[str]:
    """Return the distinct values of a column as texts, numbers by size; refuse what looks like an identifier."""
    place, cell = table_reference(info.table, info.schema), column_reference(column.name)
    query = exp.select(exp.alias_(cell, "looked_up"), exp.alias_(exp.Count(this=exp.Star()), "times")).from_(place)
    query = query.where(exp.not_(cell.is_(exp.null()))).group_by(cell.copy()).limit(MOST_VALUES + 1)
    frame = engine.frame(query)
    if len(frame) > MOST_VALUES:
        raise _refusal(column, f"has more than {MOST_VALUES} values")
    texts = [category_text(value) or "" for value in frame["looked_up"]]
    if not texts:
        raise _refusal(column, "has no values to list")
    if any(len(text) > LONGEST_VALUE or "\x00" in text for text in texts):
        raise _refusal(column, "holds free text")
    if int((frame["times"] == 1).sum()) > SHARE_OF_SINGLES * len(frame):
        raise _refusal(column, "looks like an identifier: most of its values stand in one row alone")
    return sorted(set(texts), key=natural_order)


def _refusal(column: Column, why: str) -> UsageError:
    return UsageError(
        f'the values of column "{column.name}" were not looked up: it {why}.',
        hint="list what you know in the schema file, or leave the column out",
    )
