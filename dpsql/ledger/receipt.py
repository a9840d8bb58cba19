"""The receipt outside the database: how far the ledger had come, so that an old copy cannot pass for the new.

Before a commit the receipt names the coming head as `pending`, and after it as `head`. Wherever a writer is cut off in
between, the database agrees with one of the two. A charge is handed out only after the second write.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpsql.errors import DatabaseError, DatabaseReadOnly, DiskFull, DpsqlError
from dpsql.ledger import formats, json_text
from dpsql.ledger.chain import Head

FORMAT = "dpsql-receipt"

#: This process's lock for each database file, and the lock under which that table is changed.
_LOCKS: dict[Path, threading.RLock] = {}
_LOCKS_GUARD = threading.Lock()
#: What the system says where there is no room: a full disk, a full quota, a file at its size limit.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: The largest receipt that is read, in megabytes: dpsql writes a few hundred bytes.
_LARGEST_MEGABYTES = 1


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


def read_receipt(path: Path) -> Receipt | None:
    """Return the receipt, or None when there is none. Raises ValueError when it cannot be understood.

    Raises NewerFormat where a newer dpsql wrote it, and DatabaseError where this account may not read it: neither says
    anything of the ledger.
    """
    problem: DatabaseError
    try:
        stored = json_text.parse(json_text.read_file(path, megabytes=_LARGEST_MEGABYTES))
        formats.check_document(stored, FORMAT)
        pending = stored["pending"]
        return Receipt(stored["ledger_id"], _head(stored["head"]), _head(pending) if pending else None)
    except FileNotFoundError:
        return None
    except PermissionError:
        problem = DatabaseError(
            f'this account may not read the ledger\'s receipt "{path}", so nothing can be said of the ledger.',
            hint="run as the account that owns the database file, or let it read the receipt",
        )
    except (KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{path.name} is not a receipt") from error
    raise problem


def _head(stored: dict[str, object]) -> Head:
    """Return a head as a receipt has it. Raises TypeError where it is not a number and a hash."""
    sequence, digest = stored["sequence"], stored["hash"]
    if type(sequence) is not int or type(digest) is not str or len(stored) != 2:
        raise TypeError("head")
    return Head(sequence, digest)


def receipt_bytes(path: Path | None) -> bytes | None:
    """Return the bytes of the receipt, to tell whether it was replaced; None where no receipt can be read."""
    try:
        return None if path is None else path.read_bytes()
    except OSError:
        return None


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Replace the receipt in one step. It is on disk when this returns, and its owner alone can read it.

    The new receipt is written beside the old one, always under the same name, so that what a killed process left there
    is removed by the next. Raises DiskFull or DatabaseReadOnly when it cannot be written.
    """
    coming = path.with_name(f"{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            coming.unlink()
        try:
            _write_through(coming, json.dumps(formats.stamp(FORMAT) | asdict(receipt), indent=2) + "\n")
            os.replace(coming, path)
        except OSError:
            with suppress(OSError):
                coming.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise _refusal(path, error) from error


def _write_through(path: Path, text: str) -> None:
    """Write a new file that its owner alone can read. It is on disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _refusal(path: Path, error: OSError) -> DpsqlError:
    problem = f'the ledger\'s receipt "{path}" cannot be written'
    if error.errno in _FULL:
        return DiskFull(f"{problem}: there is no room left on the disk.", hint="make room, then try again")
    return DatabaseReadOnly(f"{problem}.", hint="make the database's folder writable")


def receipt_findings(path: Path, ledger_id: str, head: Head) -> list[str]:
    """Return one sentence for each way in which the receipt and the chain's head disagree."""
    try:
        receipt = read_receipt(path)
    except ValueError:
        return [f'the receipt "{path.name}" cannot be read.']
    if receipt is None:
        return [f'the receipt "{path.name}" is missing.'] if head.sequence else []
    if receipt.ledger_id != ledger_id:
        return [f'the receipt "{path.name}" belongs to another ledger: the database file was replaced.']
    if head in (receipt.head, receipt.pending):
        return []
    noted = receipt.head.sequence
    if head.sequence < noted:
        return [f"the database is at event {head.sequence}, its receipt at {noted}: an old copy or a lost log."]
    return [f"the database's event {head.sequence} is not the one in its receipt (event {noted})."]


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable, where the system lets folders be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
