"""What the attacks on budgets share: a schema, the smallest run, and what must not be had."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.errors import BudgetError, UsageError
from dpsql.models.score import public_table
from dpsql.schema import Categorical, Numeric, Schema

SCHEMA = Schema("y", ("no", "yes"), (Categorical("c", ("a", "b")), Numeric("x", 0, 64)))
#: The smallest run.
TINY: dict[str, Any] = {"method": "rdt", "trees": 1, "depth": 1, "epsilon": "0.5"}


def assert_one_budget(db: Database, name: str) -> None:
    """Assert that a table gets no budget of its own, and no free look."""
    with pytest.raises(UsageError, match="one budget"):
        db.register(name, SCHEMA, cap=100)
    assert_no_free_look(db, name)
    assert len(db.book.datasets()) == 1


def assert_no_free_look(db: Database, name: str) -> None:
    """Assert that nothing reads a table or view without a charge."""
    with pytest.raises(BudgetError, match="cannot be read for free"):
        public_table(db, name)
