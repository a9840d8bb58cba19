"""The folder of public tables that some tests use: the one that DPSQL_BENCH_DATA names; without it they are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "DPSQL_BENCH_DATA"


def bench_data(*files: str) -> Path:
    """Return the folder, or skip the test by name where it is not named or lacks one of these files."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no folder of public tables (python -m examples.benchmarks get-tables)")
    folder = Path(named)
    for file in files:
        if not (folder / file).is_file():
            pytest.skip(f"{file} is not in the folder that {VARIABLE} names")
    return folder
