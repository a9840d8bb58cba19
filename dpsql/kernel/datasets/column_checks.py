"""What a run relies on in the columns that it reads: equal values have equal bytes, and reading fails on no row.

A batch has one budget, a unit has one ticket and at most `max_rows` rows, and a category has one cell. That holds only
where the database takes two values for equal exactly if they are the same. Under a collation (`COLLATE NOCASE`) other
values are equal too. A generated column is an expression, and a row on which it fails would make every run fail, which
reveals that row. So would a time in a Parquet file that is out of range. These checks read the catalog alone, so
whoever is refused learns nothing about rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from dpsql.compile.views.row_to_row import RowView
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.kernel.datasets.view_datasets import unfold

#: What to do about a column that a run cannot rely on.
HINT = "make it a plain stored column whose texts are compared byte by byte, or leave it out of the schema"


def why_unreliable(engine: Engine, info: TableInfo, names: Iterable[str]) -> str | None:
    """Return why a run cannot rely on these columns of a table or view, as a sentence; None where it can."""
    base, view = (info, None) if info.kind == "table" else unfold(engine, info)
    for column in _columns_read(info, base, view, names):
        if column.collation:
            return (
                f'column "{column.name}" of "{base.name}" is compared by the collation "{column.collation}", '
                "under which different texts are equal: a batch, a unit or a category would have several names."
            )
        if column.computed:
            return f'column "{column.name}" of "{base.name}" is computed when it is read, which can fail on a row.'
        if column.fallible:
            return f'column "{column.name}" of "{base.name}" is {column.type} in a file, and reading can fail on a row.'
    return next((f'"{place.name}" {place.unfit}.' for place in (info, base) if place.unfit), None)


def _columns_read(info: TableInfo, base: TableInfo, view: RowView | None, names: Iterable[str]) -> Iterator[Column]:
    """Yield the columns themselves, and for a view the base table's columns that they and its filter are made of."""
    for name in names:
        own = info.column(name)
        if own is not None:
            yield own
        if view is not None and name not in view.columns:
            yield from _columns_of(base, [exp.column(name)])
        elif view is not None:
            yield from _columns_of(base, view.columns[name].find_all(exp.Column))
    if view is not None and view.where is not None:
        yield from _columns_of(base, view.where.find_all(exp.Column))


def _columns_of(base: TableInfo, names: Iterable[exp.Column]) -> Iterator[Column]:
    """Yield the columns of a table that an expression names; other names are passed over."""
    for name in names:
        column = base.column(name.name)
        if column is not None:
            yield column
