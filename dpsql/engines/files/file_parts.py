"""Remembers which files a charged run has read, and as which table: moved or renamed, they keep that table's budget.

A registration knows the files that a table had then. Files that were added later, or written anew under the old name,
are known from the first run that reads them: their stamps are written to the ledger's database before the run may look.
A stamp holds the time of writing, because a file system soon gives the number of a file that is gone to a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from dpsql.engines import sql_files
from dpsql.engines.base import Conflict, Transaction
from dpsql.engines.files.table_files import FILE

#: Seconds to wait for others who write at the same moment.
_PATIENCE = 10.0
_Begin = Callable[[], AbstractContextManager[Transaction]]
_KNOWN = "SELECT part, read_as FROM dpsql.part"


def table_identity(table: str) -> str:
    """Return the identity of the files of a table, whichever they are: in one ledger a name means one table.

    >>> table_identity("People")
    'file table people'
    """
    return f"{FILE}table {table.lower()}"


def stamps_of(places: Iterable[Path]) -> frozenset[str]:
    """Return a stamp of each file that exists, which tells the file as it was last written, whatever it is called."""
    facts = [place.stat() for place in places if place.exists()]
    return frozenset(f"{FILE}{fact.st_dev}.{fact.st_ino} of {fact.st_mtime_ns}" for fact in facts)


def remember(begin: _Begin, reads: Mapping[str, Collection[str]]) -> None:
    """Remember, in a transaction of the ledger's database, which files are read as which table.

    `reads` are the stamps of the files by the table's name. Another who makes the table of stamps at the same moment is
    waited for; Conflict is raised when that has no end.
    """
    pairs = {(stamp, table_identity(table)) for table, stamps in reads.items() for stamp in stamps}
    deadline = time.monotonic() + _PATIENCE
    while pairs:
        try:
            with begin() as transaction:
                _write(transaction, pairs)
            return
        except Conflict:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _write(transaction: Transaction, pairs: set[tuple[str, str]]) -> None:
    if not transaction.has_table("part"):
        for statement in sql_files.statements("part.sql"):
            transaction.run(statement)
    new = sorted(pairs - {(row["part"], row["read_as"]) for row in transaction.rows(_KNOWN)})
    if new:
        parts, tables = (np.array(values, object) for values in zip(*new, strict=True))
        transaction.insert("part", {"part": parts, "read_as": tables})


def read_as(transaction: Transaction, stamps: Collection[str]) -> frozenset[str]:
    """Return the identities of all tables that some of these files were read as."""
    if not transaction.has_table("part"):
        return frozenset()
    return frozenset(row["read_as"] for row in transaction.rows(_KNOWN) if row["part"] in stamps)
