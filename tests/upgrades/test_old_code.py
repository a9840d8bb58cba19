"""A copy that was not upgraded still verifies under the code that wrote it; an upgraded one is refused there."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from dpsql.api.database import connect
from tests.upgrades.old_databases import unpack_duckdb

COMMIT = "f20b367"
ROOT = Path(__file__).resolve().parents[2]
VERIFY = (
    "import sys\nfrom dpsql.database import connect\nwith connect(sys.argv[1], who='olga') as old: print(old.verify())"
)


@pytest.fixture
def old_code(tmp_path: Path) -> Path:
    """Return a folder with the package of that commit; skip where its history is not here."""
    command = ["git", "-C", str(ROOT), "archive", COMMIT, "dpsql", "sql"]
    try:
        archive = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"git: commit {COMMIT} is not here")
    folder = tmp_path / "code"
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def test_the_old_code_verifies_a_copy_and_refuses_an_upgraded_one(old_code: Path, tmp_path: Path) -> None:
    """The upgrade changes only the database that it was asked for, and no old code writes to that one again."""
    for name in ("copy", "upgraded"):
        (tmp_path / name).mkdir()
    copy, upgraded = unpack_duckdb(tmp_path / "copy"), unpack_duckdb(tmp_path / "upgraded")
    with connect(upgraded.place, who="nora") as database:
        database.book.upgrade()
    results = [
        subprocess.run(
            [sys.executable, "-c", VERIFY, place],
            check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path, env={"PYTHONPATH": str(old_code)},
        )
        for place in (copy.place, upgraded.place)
    ]  # fmt: skip
    assert (results[0].returncode, results[0].stdout.strip()) == (0, "[]"), results[0].stderr
    assert results[1].returncode != 0
