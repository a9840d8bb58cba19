"""Folders for rows that do not fit in memory: only their owner can enter them, and they are removed when work is done.

DuckDB writes such rows to files that everybody may read, in a folder that everybody may enter, and a process that is
killed leaves them there. So each database that dpsql opens gets a folder of its own, of mode 0700, inside which DuckDB
makes and removes its own. It lies beside the rows, on the same disk, as there can be as many rows as in the table; in
the system's folder for temporary files where that place cannot be written.

A process holds a lock on its folders for as long as it lives, which the system takes away however it ends. Whoever
opens the database next removes the folders that nobody holds. A file lock of the database's own would not do: several
processes may read it at once.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: a folder of the user's own there has no mode, and is removed when work is done
    fcntl = None  # type: ignore[assignment]

_MARK = ".dpsql-spill-"
#: The folder that DuckDB makes inside ours. Where ours is gone it can make none, and fails rather than spills.
_INNER = "rows"


@dataclass
class _Lease:
    """A folder that this process has locked.

    `descriptor` is the open folder whose lock it has, `process` the process that took the lock, and `uses` the number
    of connections that use the folder.
    """

    descriptor: int
    process: int
    uses: int


_LEASES: dict[Path, _Lease] = {}
_LOCK = threading.Lock()


def make(database: Path | None, *, near: Path | None = None) -> Path:
    """Return where DuckDB may put rows of a database, after removing what killed processes left there.

    `near` is the folder of the rows where they are not in the database's own file.
    """
    place = near or (None if database is None else database.resolve().parent)
    name = f".{database.name}" if database is not None else ""
    if place is None or not os.access(place, os.W_OK | os.X_OK):
        place = Path(tempfile.gettempdir())
    for folder in _abandoned_folders(place, name):
        shutil.rmtree(folder, ignore_errors=True)
    with _LOCK:
        while True:
            folder = Path(tempfile.mkdtemp(prefix=name + _MARK, dir=place))
            descriptor = _hold(folder)
            if folder.exists():  # another process may have taken it for one that nobody holds
                break
            _let_go(descriptor)
        _LEASES[folder] = _Lease(descriptor, os.getpid(), 1)
    return folder / _INNER


def share(spill: str) -> None:
    """Count one more use of a folder that another connection of this process, to the same database, has set."""
    with _LOCK:
        if lease := _LEASES.get(Path(spill).parent):
            lease.uses += 1


def leave(spill: str) -> None:
    """End one use of a folder, and remove the folder if this was its last use and DuckDB has let it go.

    A folder that DuckDB has not let go stays locked until the process ends.
    """
    with _LOCK:
        folder = Path(spill).parent
        lease = _LEASES.get(folder)
        if lease is None:
            return
        lease.uses -= 1
        if lease.uses > 0 or (folder / _INNER).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        _let_go(lease.descriptor)
        del _LEASES[folder]


def open_to_others(spill: str) -> bool:
    """Whether others than the owner could enter a folder for rows, or a folder that would be made there."""
    place = Path(spill).absolute()
    existing = [path for path in (place, *place.parents) if path.is_dir()]
    return os.name == "posix" and all(path.stat().st_mode & 0o011 for path in existing)


def _abandoned_folders(place: Path, name: str) -> Iterator[Path]:
    """Yield the folders of a database that no living process holds."""
    for folder in place.glob("*"):
        if not folder.name.startswith(name + _MARK) or folder in _LEASES or folder.is_symlink() or not folder.is_dir():
            continue
        descriptor = _hold(folder, wait=False)
        if descriptor != _NO_LOCK:
            yield folder
            _let_go(descriptor)


#: In place of the descriptor of a locked folder: no lock was taken.
_NO_LOCK = -1


def _hold(folder: Path, *, wait: bool = True) -> int:
    """Take the lock on a folder; _NO_LOCK where another process has it, or where folders cannot be locked."""
    if fcntl is None:
        return _NO_LOCK
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return descriptor
        os.close(descriptor)
    return _NO_LOCK


def _let_go(descriptor: int) -> None:
    if descriptor != _NO_LOCK:
        os.close(descriptor)


@atexit.register
def _clean() -> None:
    """Remove the folders of databases that were never closed; a copy of this process leaves them to the first."""
    for folder, lease in _LEASES.items():
        if lease.process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
