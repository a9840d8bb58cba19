"""Completes the next step of an error with the database and the table of the command that failed, ready to paste.

Errors are raised far below the command line, where nobody knows how the database was named. A command in a hint
(`dpsql ledger --table people`) gets the user's own `--db` and its companions here, and the placeholder TABLE the user's
own table, both quoted for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

#: Commands whose second word is a subcommand.
_GROUPS = "schema|ledger|party|bench"
#: Subcommands of a group that is a command by itself: no other word behind it is one.
_OF_MODELS = "drop|rename|tag"
#: A command inside a hint, with the subcommand where it has one.
_COMMAND = re.compile(rf"\bdpsql ((?:{_GROUPS}) (?=[a-z])[a-z-]+|models (?:{_OF_MODELS})|[a-z][a-z-]*)(?![\w-]|[.(])")
#: What stands for a name that the caller gave as an option of that name.
_PLACEHOLDERS = {"TABLE": "table", "FILE": "schema_file", "NAME": "model"}
#: Commands that open no database, or name one in another way.
_WITHOUT_DATABASE = ("demo", "bench", "methods", "completion")


def complete_hint(hint: str | None, words: str, options: Mapping[str, Any]) -> str | None:
    """Return a hint whose commands name the caller's database, and whose placeholders are the caller's own names.

    `words` are the options that name the database; `options` are the other options of the command that failed.

    >>> complete_hint("dpsql register --table TABLE --schema FILE", "--db 'my data.duckdb'", {"table": "my t"})
    "dpsql register --db 'my data.duckdb' --table 'my t' --schema FILE"
    >>> complete_hint("check --db", "--db data.duckdb", {})
    'check --db'
    """
    if hint is None or not words:
        return hint
    pieces = [_complete_command(piece, words, options) for piece in _split_at_commands(hint)]
    return "".join(pieces)


def complete_problems(message: str, words: str, options: Mapping[str, Any]) -> str:
    """Return a message whose lines end in hints of their own (` Try: …`), each of them completed.

    >>> complete_problems("2 problems:\\n  line 1: no. Try: dpsql schema draft --table t", "--db x", {})
    '2 problems:\\n  line 1: no. Try: dpsql schema draft --db x --table t'
    """
    split = [line.rpartition(" Try: ") for line in message.split("\n")]
    return "\n".join(
        f"{start}{sign}{complete_hint(hint, words, options) if sign else hint}" for start, sign, hint in split
    )


def _split_at_commands(hint: str) -> list[str]:
    """Return the pieces of a hint; each but the first begins with a command."""
    starts = [0, *(match.start() for match in _COMMAND.finditer(hint)), len(hint)]
    return [hint[start:end] for start, end in pairwise(starts)]


def _complete_command(piece: str, words: str, options: Mapping[str, Any]) -> str:
    match = _COMMAND.match(piece)
    if match is None or match[1].split()[0] in _WITHOUT_DATABASE:
        return piece
    if "--db" not in piece:
        piece = f"{match[0]} {words}{piece[match.end() :]}"
    elif "--db …" in piece:
        piece = piece.replace("--db …", words, 1)
    for placeholder, option in _PLACEHOLDERS.items():
        given = options.get(option)
        if isinstance(given, str) and given:
            named = f"--{'schema' if option == 'schema_file' else option}"
            piece = piece.replace(f"{named} {placeholder}", f"{named} {shlex.quote(given)}")
    return piece
