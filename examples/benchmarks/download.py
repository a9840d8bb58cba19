"""Downloads files so that nothing half-written, and nothing that changed, is ever taken for a whole file.

A download goes into a file that ends with `.part`. Only when its length and its SHA-256 are right does it get its name.
Where the checksum is known, a part that is there is gone on with; otherwise the download starts anew, for a mixture of
two versions could not be told from a whole file. A checksum that nobody declared is recorded in a lock file on first
use; content that differs from it later is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from dpsql.errors import DpsqlError, UsageError

#: Seconds without a byte after which a server is given up.
TIMEOUT_SECONDS = 60
#: Bytes that are read at a time.
CHUNK_BYTES = 1 << 16
LOCK = "originals.lock.json"
#: The status of an answer that goes on from where a part ends, and of one that has nothing more to give.
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True)
class Folder:
    """A folder of originals with its lock file."""

    path: Path

    @property
    def checksums(self) -> dict[str, str]:
        """What the lock file records: a SHA-256 by the file's name."""
        file = self.path / LOCK
        if not file.is_file():
            return {}
        try:
            recorded: Any = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            recorded = None
        if not isinstance(recorded, dict):
            raise UsageError(f'"{file}" is not a JSON mapping of checksums.', hint="delete it to trust the files anew")
        return recorded

    def fetch(self, name: str, url: str, *, sha256: str | None = None) -> Path:
        """Return the file called `name`, downloaded from `url` unless it is there; its checksum is always looked at."""
        expected = sha256 or self.checksums.get(name)
        file = self.path / name
        if not file.is_file():
            part = file.with_name(file.name + ".part")
            part.parent.mkdir(parents=True, exist_ok=True)
            if expected is None:
                part.unlink(missing_ok=True)
            _download(url, part)
            _check(part, url, expected)
            part.replace(file)
        else:
            _check(file, str(file), expected)
        if expected is None:
            self._lock(name, _sha256(file))
        return file

    def _lock(self, name: str, checksum: str) -> None:
        write_all_or_nothing(
            self.path / LOCK, json.dumps(self.checksums | {name: checksum}, indent=1, sort_keys=True) + "\n"
        )


def write_all_or_nothing(file: Path, text: str) -> None:
    """Write a text file so that a reader finds the old content or the new, never a part."""
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _download(url: str, part: Path) -> None:
    """Write what an address gives to the end of a part, or from its start where the server cannot go on."""
    if not url.startswith(("https://", "http://")):
        raise UsageError(f'"{url}" is not an address that begins with https:// or http://.', hint="check --mirror")
    there = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={there}-"} if there else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            _copy(answer, part, there if answer.status == PARTIAL_CONTENT else 0)
    except urllib.error.HTTPError as error:
        if there and error.code == RANGE_NOT_SATISFIABLE:
            return  # the part was whole already: the checksum says whether it is right
        raise DpsqlError(f'"{url}" answered {error.code} {error.reason}.', hint="try later, or --mirror URL") from None
    except (OSError, HTTPException) as error:
        raise DpsqlError(f'"{url}" cannot be read: {error}.', hint="run the command again, or --mirror URL") from None


def _copy(answer: HTTPResponse, part: Path, start: int) -> None:
    """Copy an answer into a part from `start` on; an answer that breaks off is an error, and the part stays."""
    promised = answer.headers.get("Content-Length")
    copied = 0
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while chunk := answer.read(CHUNK_BYTES):
            file.write(chunk)
            copied += len(chunk)
    if promised is not None and copied != int(promised):
        raise DpsqlError(
            f'"{answer.url}" broke off after {copied} of {promised} bytes.', hint="run the command again to go on"
        )


def _check(file: Path, where: str, expected: str | None) -> None:
    """Refuse a file whose checksum is not the expected one; a part is deleted, so that the next run starts anew."""
    actual = _sha256(file)
    if expected is None or actual == expected:
        return
    if file.suffix == ".part":
        with suppress(OSError):
            os.unlink(file)
    raise DpsqlError(
        f'"{where}" has the SHA-256 {actual}, not {expected}.',
        hint="look at the file before you trust it; the checksum stands in sources.py or in the lock file",
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
