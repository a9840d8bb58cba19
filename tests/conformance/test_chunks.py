"""Every engine streams predictions: in chunks, into files, and the first rows alone."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pandas as pd
from sqlglot import exp

from dpsql.api.database import Database
from dpsql.engines.base import Engine
from tests.tables import SCHEMA, model_of, small_forest, voting


def test_every_engine_streams_the_rows_of_predict(engine: Engine, tmp_path: Path) -> None:
    """On every engine chunks and files hold the labels that `predict` gives, and a limit reads the first rows."""
    count = 5000
    frame = pd.DataFrame(
        {
            "id": range(count),
            "x": [number % 64 + 0.5 for number in range(count)],
            "c": ["a", "b", "z", "q"] * (count // 4),
            "day": [datetime.date(2026, 1, 1)] * count,
        }
    )
    database = Database(engine, who="ann")
    engine.create("streamed", exp.select("*").from_("made"), {"made": frame})
    model = database.add(model_of(voting(small_forest(depth=3), 3), SCHEMA, "streams"))
    wanted = dict(zip(frame["id"], model.predict(frame), strict=True))
    chunks = list(model.predict_chunks("streamed", key="id", rows=2048))
    assert len(chunks) > 1 or engine.driver == "chdb"  # ClickHouse has blocks of its own, of some 65,000 rows
    assert dict(zip(*(pd.concat(chunks)[name].tolist() for name in ("id", "prediction")), strict=True)) == wanted
    for kind in ("csv", "parquet"):
        model.predict("streamed", key="id", to=tmp_path / f"out.{kind}")
        with duckdb.connect() as connection:
            rows = connection.execute(f"SELECT id, prediction FROM '{tmp_path}/out.{kind}'").fetchall()
        assert dict(rows) == wanted
    first = model.predict("streamed", key="id", limit=7)
    assert len(first) == 7
    assert all(wanted[key] == label for key, label in zip(first["id"], first["prediction"], strict=True))
