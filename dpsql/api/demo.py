"""Shows every step on synthetic data: make a database, register, train, predict, evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sqlglot import exp

from dpsql.api import census
from dpsql.api.database import connect
from dpsql.kernel.datasets.hold_out import hold_out_name
from dpsql.ledger import Budget
from dpsql.models.evaluate import Evaluation
from dpsql.models.usable_model import Model


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What the demo made and measured."""

    model: Model
    evaluation: Evaluation
    predictions: pd.DataFrame
    ledger: pd.DataFrame
    budget: Budget
    hold_out_budget: Budget


def demonstrate(path: str | Path, *, rows: int = census.ROWS) -> Demonstration:
    """Make a DuckDB file with a synthetic census, register it, train a forest, and measure it.

    It is measured twice: on the private table's hold-out, charged, and on a public table of other people, for free.
    """
    with connect(path, create=True) as db:
        for name, count, seed in (("census", rows, 1), ("census_holdout", census.HOLD_OUT_ROWS, 2)):
            db.engine.create(name, exp.select("*").from_("made"), {"made": census.rows(count, seed)})
        db.register("census", census.SCHEMA, cap=3, holdout="10%")
        model = db.train("census", epsilon=1, evaluate="0.1", name="census_forest")
        scored = model.predict("census_holdout", key="person_id")
        return Demonstration(
            model=model,
            evaluation=db.evaluate(model, "census_holdout"),
            predictions=scored if isinstance(scored, pd.DataFrame) else pd.DataFrame(),
            ledger=db.ledger(),
            budget=db.budget("census"),
            hold_out_budget=db.budget(hold_out_name("census")),
        )
