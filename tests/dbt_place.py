"""Where dbt is: dbt-core and mypy want different versions of one package, so dbt has an environment of its own.

It is `.venv-dbt` in the repository's root, made by
`python3 -m venv .venv-dbt && .venv-dbt/bin/pip install -e '.[test-dbt]'`, or the one whose Python `DPSQL_DBT` names.
Absent, its tests are skipped by name; `DPSQL_REQUIRE=dbt` makes that a failure.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from tests.servers import absent

ROOT = Path(__file__).resolve().parent.parent
_HOW = "python3 -m venv .venv-dbt && .venv-dbt/bin/pip install -e '.[test-dbt]'"


def dbt_python() -> str:
    """Return the Python that has dbt, dbt-duckdb and dpsql; skip or fail where there is none."""
    python = os.environ.get("DPSQL_DBT") or str(ROOT / ".venv-dbt" / "bin" / "python")
    problem = _problem_of(python)
    if problem:
        absent("dbt", f"{problem}. Try: {_HOW}")
    return python


@cache
def _problem_of(python: str) -> str:
    """Return what is wrong with an environment, "" where it has all that is needed."""
    if not Path(python).is_file():
        return f"there is no {python}"
    wanted = "import dbt.adapters.duckdb, dbt.cli.main; from importlib.metadata import version; version('dpsql')"
    done = subprocess.run([python, "-c", wanted], capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else f"{python} cannot import it ({done.stderr.strip().splitlines()[-1]})"
