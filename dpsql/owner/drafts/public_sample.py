"""Domains from a public sample: a file or table of rows that belong to nobody in the private table.

Its owner calls it public by naming it. A sample that is the private table itself, or shares rows with it or with any
registered table, is refused. Bounds are rounded outwards, so that rows a little beyond the sample still fit.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

import pandas as pd
from sqlglot import exp

from dpsql.compile.rows import table_reference
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.engines.files.read_rows import is_file, read_rows
from dpsql.engines.files.table_files import file_identities
from dpsql.ledger import Ledger
from dpsql.owner.drafts.catalog_sources import HASHED, is_ordered, looks_like_codes, natural_order
from dpsql.owner.drafts.proposal import (
    FEATURE,
    GAP,
    IDENTIFIER,
    Proposal,
    Source,
    as_number,
    from_bounds,
    from_values,
)
from dpsql.owner.drafts.public_tables import check_public_file, find_public_table
from dpsql.schema.features import category_text

#: The most rows of a public table that are read; of a file all are.
MOST_ROWS = 1_000_000
#: A list of more values than this is left to the owner.
MOST_VALUES = 1000
#: Up to so many different integers are offered as categories too.
FEW_CODES = 20
#: From so many rows on, a column whose values differ in more than this share of the rows is taken for an identifier.
_ROWS_TO_TELL, _SHARE_OF_IDENTIFIER = 20, 0.9
#: How far beyond the sample the bounds lie, as a share of its range, before they are rounded.
_MARGIN = Decimal("0.1")


def read_sample(engine: Engine, ledger: Ledger, info: TableInfo, like: str | Path) -> pd.DataFrame:
    """Return the rows of a public sample, or refuse it: a file by its ending, otherwise a table of the database."""
    if is_file(like):
        path = Path(like)
        check_public_file(engine, ledger, info, str(like), file_identities([path]))
        return read_rows(path, ())
    sample = find_public_table(engine, ledger, info, str(like))
    return engine.frame(exp.select("*").from_(table_reference(sample.table, sample.schema)).limit(MOST_ROWS))


def sample_source(sample: pd.DataFrame, name: str) -> Source:
    """Return the source of what a sample's columns of the same names show; letter case does not matter."""
    columns = {str(column).lower(): column for column in reversed(sample.columns)}
    origin = f"sample {Path(name).name}"

    def propose(column: Column) -> Proposal | None:
        if column.name.lower() not in columns:
            return None
        values = sample[columns[column.name.lower()]]
        values = values[values.notna()]
        if column.family in ("date", "timestamp"):
            return _dates(column, values, origin)
        if column.family in ("integer", "real"):
            return _numbers(column, values, origin)
        texts = [text for text in map(category_text, values) if text]
        return _csv_cells(column, texts, origin) if column.family == "untyped" else _texts(column, texts, origin)

    return propose


def outward_bounds(lowest: Decimal, highest: Decimal) -> tuple[Decimal, Decimal]:
    """Return round bounds around a sample's extremes: a tenth of the range further, then to a multiple of 1, 2, 5·10^k.

    Zero is not passed by the margin: what is never negative in the sample has a lower bound of at least 0.

    >>> outward_bounds(Decimal(17), Decimal(90)), outward_bounds(Decimal(1990), Decimal(2020))
    ((Decimal('5'), Decimal('100')), (Decimal('1986'), Decimal('2024')))
    """
    span = (highest - lowest) or abs(lowest) or Decimal(1)
    step = _round_step(span / 10)
    lower = ((lowest - _MARGIN * span) / step).to_integral_value(ROUND_FLOOR) * step
    upper = ((highest + _MARGIN * span) / step).to_integral_value(ROUND_CEILING) * step
    return max(lower, Decimal(0)) if lowest >= 0 else lower, min(upper, Decimal(0)) if highest <= 0 > lowest else upper


def _round_step(size: Decimal) -> Decimal:
    """Return the largest of 1, 2 and 5·10^k that is not above a size."""
    unit = Decimal(10) ** size.adjusted()
    return next(factor * unit for factor in (5, 2, 1) if factor * unit <= size)


def _numbers(column: Column, values: pd.Series, origin: str) -> Proposal | None:
    numbers = {number for number in map(as_number, values.drop_duplicates()) if number is not None}
    if not numbers:
        return None
    bounds = from_bounds(column, *outward_bounds(min(numbers), max(numbers)), origin)
    if column.family == "real" or len(numbers) > FEW_CODES or bounds is None:
        return bounds
    texts = sorted({category_text(float(number)) or "" for number in numbers}, key=natural_order)
    codes = from_values(column, texts, origin)
    if codes is None:
        return bounds
    first, second = (codes, bounds) if looks_like_codes(column) and not is_ordered(column) else (bounds, codes)
    return Proposal(column.name, FEATURE, first.feature, (second.feature,), origin)


def _texts(column: Column, texts: list[str], origin: str) -> Proposal | None:
    distinct = set(texts)
    if len(texts) >= _ROWS_TO_TELL and len(distinct) > _SHARE_OF_IDENTIFIER * len(texts):
        return Proposal(column.name, IDENTIFIER, origin=f"{origin}: nearly every row has a value of its own")
    if len(distinct) > MOST_VALUES:
        blank = {"type": "categorical", "values": GAP}
        advice = f"the sample has more than {MOST_VALUES} values"
        return Proposal(column.name, FEATURE, blank, (HASHED,), origin, advice)
    return from_values(column, sorted(distinct, key=natural_order), origin)


def _csv_cells(column: Column, texts: list[str], origin: str) -> Proposal | None:
    """Return what cells of CSV look like: numbers, true and false, or texts."""
    distinct = set(texts)
    if distinct and {text.lower() for text in distinct} <= {"true", "false"}:
        return Proposal(column.name, FEATURE, {"type": "boolean"}, origin=origin)
    numbers = [as_number(text) for text in distinct]
    if not distinct or None in numbers:
        return _texts(column, texts, origin)
    return _numbers(column, pd.Series(list(distinct), dtype=object), origin)


def _dates(column: Column, values: pd.Series, origin: str) -> Proposal | None:
    """Return the years of the sample as bounds."""
    days = pd.to_datetime(values, errors="coerce").dropna()
    if days.empty:
        return None
    bounds = {"lower": f"{days.min().year:04d}-01-01", "upper": f"{days.max().year:04d}-12-31"}
    return Proposal(column.name, FEATURE, {"type": column.family, **bounds}, origin=origin)
