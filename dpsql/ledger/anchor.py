"""The receipt outside the database: how far the ledger had come, so that an old copy cannot pass for the new.

Before a commit the receipt names the coming head as `pending`, after it as `head`. Whatever is cut off in
between, the database then agrees with one of the two. A charge is handed out only after the second write.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from dpsql.errors import DatabaseReadOnly
from dpsql.ledger.chain import Head

_LOCKS: dict[Path, threading.RLock] = {}
_LOCKS_GUARD = threading.Lock()


@dataclass(frozen=True)
class Receipt:
    """What `<db>.anchor` holds: the ledger's name, its confirmed head and perhaps a pending one."""

    ledger_id: str
    head: Head
    pending: Head | None = None


def anchor_path(database: Path) -> Path:
    """Return where the receipt of a database file lies: beside the file itself, symbolic links followed.

    >>> anchor_path(Path("/data/adult.duckdb")).name
    'adult.duckdb.anchor'
    """
    real = database.resolve()
    return real.with_name(f"{real.name}.anchor")


def lock_for(database: Path) -> threading.RLock:
    """Return this process's one lock for a database file: held from before a commit until its receipt."""
    with _LOCKS_GUARD:
        return _LOCKS.setdefault(database.resolve(), threading.RLock())


def read(path: Path) -> Receipt | None:
    """Return the receipt, or None when there is none. Raises ValueError when it cannot be understood."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        pending = found["pending"]
        return Receipt(found["ledger_id"], Head(**found["head"]), Head(**pending) if pending else None)
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, OSError) as error:
        raise ValueError(f"{path.name} is not a receipt") from error


def write(path: Path, receipt: Receipt) -> None:
    """Replace the receipt in one step, on disk when this returns, readable by its owner alone.

    Raises DatabaseReadOnly when the folder cannot be written.
    """
    text = json.dumps(asdict(receipt), indent=2) + "\n"
    try:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise DatabaseReadOnly(
            f'the ledger\'s receipt "{path}" cannot be written.', hint="make the database's folder writable"
        ) from error


def findings(path: Path, ledger_id: str, head: Head) -> list[str]:
    """Return one sentence for each way in which the receipt and the chain's head disagree."""
    try:
        receipt = read(path)
    except ValueError:
        return [f'the receipt "{path.name}" cannot be read.']
    if receipt is None:
        return [f'the receipt "{path.name}" is missing.'] if head.sequence else []
    if receipt.ledger_id != ledger_id:
        return [f'the receipt "{path.name}" belongs to another ledger: the database file was replaced.']
    if head in (receipt.head, receipt.pending):
        return []
    known = receipt.head.sequence
    if head.sequence < known:
        return [f"the database is at event {head.sequence}, its receipt at {known}: an old copy or a lost log."]
    return [f"the database's event {head.sequence} is not the one in its receipt (event {known})."]


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable, where the system lets folders be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
