"""The program in examples/papers, loaded as `python examples/papers` loads it, but in this process."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "papers"
_LOADED = runpy.run_path(str(FOLDER), run_name="papers")

main: Callable[[list[str]], int] = _LOADED["main"]
#: All experiments by name.
EXPERIMENTS: dict[str, Any] = _LOADED["catalogue"].EXPERIMENTS


def module(name: str) -> Any:
    """Return one of the program's modules."""
    return sys.modules[name]
