"""Formatter, linter and type checker, so that one command checks everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy", "--no-error-summary"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_code_is_clean(name: str, tmp_path: Path) -> None:
    """The tool finds nothing to complain about."""
    command = [sys.executable, "-m", *CHECKS[name]]
    if name == "types":
        command += ["--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_readme_test_command() -> None:
    """`.ci/run` and the README name the same command, so that neither can rot alone."""
    wanted = "pip install -e '.[test]' && .venv/bin/python -m pytest"
    assert wanted in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_modules_stay_small() -> None:
    """No module of the package or its tests passes 600 lines."""
    for folder in ("dpsql", "tests", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path
