"""Every engine, one after the other, as in the conformance suite."""

from __future__ import annotations

from tests.conformance.conftest import engine, make_engine

__all__ = ["engine", "make_engine"]
