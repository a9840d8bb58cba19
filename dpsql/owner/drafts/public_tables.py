"""Tables that an owner calls public: code tables and samples. One that holds rows of a private table is refused."""

from __future__ import annotations

from collections.abc import Collection

from dpsql.engines.base import Engine, TableInfo
from dpsql.engines.identity_texts import share_rows
from dpsql.errors import BudgetError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import private_tables, why_not_free
from dpsql.kernel.datasets.identity import Base, tables_shown
from dpsql.ledger import Ledger


def find_public_table(engine: Engine, ledger: Ledger, drafted: TableInfo, name: str) -> TableInfo:
    """Return a table that can be read for free: it shares no row with the drafted table or with a registered one."""
    info = engine.table(name)
    if info is None:
        raise UnknownName("table", name, engine.tables())
    shown = tables_shown(engine, info) or [info]
    for base in _bases(engine, drafted):
        if any(base.shares(table) for table in shown):
            raise _shares_rows(info.name, drafted)
    why = why_not_free(engine, ledger, info)
    if why is not None:
        raise BudgetError(f'"{info.name}" {why}: it is not public.', hint="name a public table or file")
    return info


def check_public_file(
    engine: Engine, ledger: Ledger, drafted: TableInfo, name: str, identities: Collection[str]
) -> None:
    """Refuse a file that the drafted table or a registered one reads, by the identities of files."""
    if any(share_rows(base.rows, identities) for base in _bases(engine, drafted)):
        raise _shares_rows(name, drafted)
    for table, base in private_tables(ledger):
        if share_rows(base.rows, identities):
            raise BudgetError(f'"{name[:80]}" holds rows of the registered private table "{table}": it is not public.')


def _bases(engine: Engine, drafted: TableInfo) -> list[Base]:
    """Return the stored tables whose rows a table or view shows; itself where that is unknown."""
    return [Base.of(table) for table in tables_shown(engine, drafted) or [drafted]]


def _shares_rows(name: str, drafted: TableInfo) -> UsageError:
    return UsageError(
        f'"{name[:80]}" holds rows of the private table "{drafted.name}": it is not public.',
        hint="name rows of other people; or columns whose values are public knowledge: --values-are-public COLUMN",
    )
