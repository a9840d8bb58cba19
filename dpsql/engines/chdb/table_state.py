"""Whether a table of chDB is as it was: ClickHouse has no transactions, so a run that was disturbed must fail.

A MergeTree table is a set of parts, none of which ever changes. Rows are added as new parts; rows that are changed or
removed make other parts, under a higher number. The one thing that happens without anybody's doing is that parts are
merged: the rows are the same then, and so are their number and the last numbers of blocks and changes.

Other tables that hold rows (Memory, Log) tell nothing of the kind: a run copies them once, and reads the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dpsql.engines.base import TableInfo
from dpsql.errors import TableChanged

Ask = Callable[[exp.Select], list[dict[str, Any]]]
MERGE_TREE = "MergeTree"
_PART = (
    "partition_id AS folder", "name", "hash_of_all_files AS digest", "CAST(rows AS Int64) AS rows",
    "CAST(level AS Int64) AS level", "CAST(max_block_number AS Int64) AS block",
    "CAST(IF(data_version > max_block_number, data_version, 0) AS Int64) AS change",
)  # fmt: skip
_CHANGES = ("CAST(COUNT(*) AS Int64) AS begun", "CAST(countIf(NOT is_done) AS Int64) AS running")


def engine_of(ask: Ask, table: TableInfo) -> str:
    """Return the kind of table; "" when it is gone."""
    rows = ask(_select_about("system.tables", table, "engine", key="name"))
    return str(rows[0]["engine"]) if rows else ""


@dataclass(frozen=True)
class State:
    """The parts of a table by their names, and how many changes of rows were begun and still run."""

    parts: dict[str, dict[str, Any]]
    changes: tuple[int, int]

    @classmethod
    def read(cls, ask: Ask, table: TableInfo) -> State:
        """Return the state of a table now. Reads no row."""
        parts = ask(_select_about("system.parts", table, *_PART).where("active"))
        changes = ask(_select_about("system.mutations", table, *_CHANGES))[0]
        return cls({part["name"]: part for part in parts}, (changes["begun"], changes["running"]))

    def same_rows(self, later: State) -> bool:
        """Whether a later state has the same rows: the same parts, or parts that were merged from them."""
        in_both = self.parts.keys() & later.parts.keys()
        if self.changes != later.changes or any(self.parts[name] != later.parts[name] for name in in_both):
            return False
        gone = [part for name, part in self.parts.items() if name not in in_both]
        new = [part for name, part in later.parts.items() if name not in in_both]
        merged = not new or min(part["level"] for part in new) > min((part["level"] for part in gone), default=2**62)
        return merged and _sums(self) == _sums(later)


def check_state(ask: Ask, table: TableInfo, before: State) -> None:
    """Raise TableChanged unless a table has the rows that it had before."""
    if not before.same_rows(State.read(ask, table)):
        raise TableChanged(
            f'table "{table.name}" was written to while it was read, and what was charged stays charged.',
            hint="ask again when nobody writes to it",
        )


def _sums(state: State) -> dict[str, tuple[int, int, int]]:
    """Return what merging leaves as it is, for each folder of parts: rows, last block, last change."""
    folders = {part["folder"] for part in state.parts.values()}
    inside = {folder: [part for part in state.parts.values() if part["folder"] == folder] for folder in folders}
    return {
        folder: (
            sum(part["rows"] for part in parts),
            max(part["block"] for part in parts),
            max(part["change"] for part in parts),
        )
        for folder, parts in inside.items()
    }


def _select_about(catalog: str, table: TableInfo, *columns: str, key: str = "table") -> exp.Select:
    own = [exp.column("database").eq(table.schema), exp.column(key).eq(table.table)]
    expressions: list[exp.Expr] = [exp.maybe_parse(column, dialect="clickhouse") for column in columns]
    return exp.select(*expressions).from_(catalog).where(*own)
