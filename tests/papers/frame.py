"""The program in examples/papers, in this process."""

from __future__ import annotations

import importlib
from typing import Any

from examples.papers.__main__ import main
from examples.papers.catalogue import EXPERIMENTS

__all__ = ["EXPERIMENTS", "main", "module"]


def module(name: str) -> Any:
    """Return one of the program's modules."""
    return importlib.import_module(f"examples.papers.{name}")
