"""Older DuckDB versions: each is installed by pip into a folder of its own and answers in a process of its own.

One that cannot be installed (no network) is skipped by name, unless the environment variable DPSQL_REQUIRE names it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.elsewhere import absent

#: The name by which DPSQL_REQUIRE asks for them.
NAME = "older-duckdb"
#: The newest version with long support; an early one, which reads stored macros in a way of its own; the one before.
VERSIONS = ("1.4.*", "1.4.1", "1.3.*")
#: Runs statements of a JSON list on a file; prints the version, then each answer: its rows, or its error.
_PROGRAM = """
import json, sys, duckdb
connection = duckdb.connect(sys.argv[1])
answers = []
for statement in json.load(sys.stdin):
    try:
        answers.append([list(row) for row in connection.execute(statement).fetchall()])
    except duckdb.Error as error:
        answers.append(str(error))
connection.close()
print(json.dumps([duckdb.__version__, *answers], default=str))
"""


@dataclass(frozen=True)
class OlderDuckDB:
    """One version: its number, and the folder that it lies in."""

    version: str
    folder: Path

    def answers(self, file: Path, statements: Sequence[str]) -> list[Any]:
        """Return what each statement gives on a database file: rows as lists, or the text of its error."""
        version, *answers = _run_program(file, statements, {"PYTHONPATH": str(self.folder)})
        assert version == self.version
        return answers


def present_answers(file: Path, statements: Sequence[str]) -> list[Any]:
    """Return the same from the DuckDB that dpsql itself runs on."""
    return _run_program(file, statements, {})[1:]


def install(version: str, folder: Path) -> OlderDuckDB:
    """Return the newest version that fits, such as "1.4.*", installed into a folder; skip the test where that fails."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--target", str(folder), f"duckdb=={version}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    except OSError as error:
        absent(NAME, f"pip cannot be started: {error}")
    if done.returncode:
        absent(NAME, f"duckdb {version} cannot be installed: {done.stderr.strip()[-200:]}")
    (metadata,) = folder.glob("duckdb-*.dist-info")
    return OlderDuckDB(metadata.name.removeprefix("duckdb-").removesuffix(".dist-info"), folder)


def _run_program(file: Path, statements: Sequence[str], environment: dict[str, str]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(file)],
        check=True, capture_output=True, text=True, timeout=300, input=json.dumps(list(statements)), cwd=file.parent,
        env={"PATH": os.environ.get("PATH", "")} | environment,
    )  # fmt: skip
    answers: list[Any] = json.loads(done.stdout)
    return answers
