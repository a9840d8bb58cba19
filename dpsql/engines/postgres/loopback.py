"""The way back into the server: the owner role's password, in a file of the server's own user and nowhere else.

The kernel inside a server connects back to it as the owner role. The password for that is drawn inside the server,
by `dpsql init`, and lies in a folder outside the data directory which the server's user alone can enter. The server
itself stores what it needs to check the password (a SCRAM verifier, RFC 5802), from which nobody can log in. So no
dump, no base backup, no log and no statement ever holds it.

The file's name is made of the server's identifier, its data directory (path and inode) and the role: a copy of the
server, however it was made, finds no file of its own and has no way back to anything until `dpsql init` is run on it.
This module is run by the server's own Python and needs nothing but the standard library.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import pwd
import secrets
from pathlib import Path
from typing import Any

#: As many rounds as PostgreSQL itself takes; the password is random, so more would protect nothing.
_ROUNDS = 4096
_FOLDER = ".dpsql"


class NoSecret(Exception):
    """There is no password for this server and role: it is a copy, was moved, or was never prepared."""


def keep(plpy: Any, folder: str | None, role: str) -> None:
    """Give the role a password that is in one file alone; run in the server, by a superuser.

    A password that is there already stays, so that several databases of one server can have the same owner role. Two
    settings of the transaction tell `dpsql init` how it went: `dpsql.problem` is what is wrong with the folder, ""
    where nothing is, and `dpsql.secret` whether the password is new or was kept.
    """
    place = Path(folder) if folder else secret_home()
    problem = _make_folder(place)
    _tell(plpy, "dpsql.problem", problem and f'the folder "{place}" {problem}.')
    if problem:
        return
    system = str(plpy.execute("SELECT system_identifier FROM pg_catalog.pg_control_system()")[0]["system_identifier"])
    path = secret_file(place, system, role)
    _tell(plpy, "dpsql.secret", "kept" if path.exists() else "new")
    password = path.read_text(encoding="ascii") if path.exists() else secrets.token_urlsafe(32)
    statement = plpy.prepare("SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', $1, $2) AS text", ["text", "text"])
    plpy.execute(plpy.execute(statement, [role, verifier(password)])[0]["text"])
    if not path.exists():
        _write(path, password)


def _tell(plpy: Any, name: str, value: str) -> None:
    plpy.execute(plpy.prepare("SELECT set_config($1, $2, true)", ["text", "text"]), [name, value])


def read_secret(folder: str | None, system: str, role: str) -> str:
    """Return the password, in a process of the server's user that stands in the data directory."""
    try:
        return secret_file(Path(folder) if folder else secret_home(), system, role).read_text(encoding="ascii")
    except OSError:
        raise NoSecret from None


def secret_home() -> Path:
    """Return the folder that is used when none is named: in the home of the server's user, beside the data."""
    return Path(pwd.getpwuid(os.geteuid()).pw_dir) / _FOLDER


def secret_file(folder: Path, system: str, role: str) -> Path:
    """Return the file of a server and a role; the working directory of every server process is its data directory."""
    data = os.path.realpath(".")
    identity = json.dumps([system, data, os.stat(data).st_ino, role])
    return folder / hashlib.sha256(identity.encode()).hexdigest()[:40]


def verifier(password: str, salt: bytes | None = None) -> str:
    """Return what PostgreSQL stores of a password: enough to check it, too little to log in.

    The example has the password and the salt of RFC 7677.

    >>> verifier("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")).split("$")[2]
    'WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU='
    """
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ROUNDS)
    client, server = (hmac.digest(salted, text, "sha256") for text in (b"Client Key", b"Server Key"))
    shown = [base64.b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server)]
    return f"SCRAM-SHA-256${_ROUNDS}:{shown[0]}${shown[1]}:{shown[2]}"


def _make_folder(place: Path) -> str:
    """Make the folder, and return what is wrong with it, "" where nothing is."""
    data_folders = [os.path.realpath("."), *(os.path.realpath(entry.path) for entry in os.scandir("pg_tblspc"))]
    real = os.path.realpath(place)
    if not place.is_absolute() or any(
        os.path.commonpath([real, data_folder]) == data_folder for data_folder in data_folders
    ):
        return "is part of the data, which backups carry away"
    try:
        place.mkdir(mode=0o700, parents=False, exist_ok=True)
        facts = place.stat()
    except OSError as error:
        return f"cannot be made by the server ({error.strerror})"
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077 or not os.access(place, os.W_OK):
        return "must belong to the server's user, who alone may enter it"
    return ""


def _write(path: Path, password: str) -> None:
    """Write a file that appears whole or not at all, readable by its owner alone."""
    new = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(password)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
