"""Models that read dates and timestamps, exported: every database that can be run here predicts the same."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.compile.predict.dialects import DIALECTS
from dpsql.models.export_sql import export_script
from dpsql.models.usable_model import Model
from dpsql.schema import Dated, Schema
from tests.elsewhere import ELSEWHERE, KEY, Elsewhere
from tests.tables import model_of, small_forest, voting

EPOCH = datetime.datetime(1970, 1, 1)
SCHEMA = Schema(
    "y",
    ("no", "yes"),
    (
        Dated("joined", "2015-01-01", "2026-12-31", null="2020-01-01"),
        Dated("seen", "2020-01-01T00:00:00", "2020-01-03", kind="timestamp"),
        Dated("early", "1960-01-01", "1975-01-01", unit="hour", kind="timestamp"),
    ),
)


def rows() -> list[tuple[Any, ...]]:
    """Return moments at, before and after edges, each with its number; the first are missing."""
    joined, seen, early = (
        [feature.first_moment(edge) for edge in (feature.lower, *feature.edges, feature.upper)]
        for feature in SCHEMA.numeric
        if isinstance(feature, Dated)
    )
    made: list[tuple[Any, ...]] = [(None, None, None)]
    for place in range(len(seen)):
        for shift in (-1, 0, 1):
            day = EPOCH + datetime.timedelta(microseconds=joined[place] + shift)
            moments = [EPOCH + datetime.timedelta(microseconds=column[place] + shift) for column in (seen, early)]
            made.append((day.date(), *moments))
    made += [
        (datetime.date(1950, 1, 1), EPOCH, EPOCH),
        (datetime.date(2100, 1, 1), *[datetime.datetime(2100, 1, 1)] * 2),
    ]
    return [(place, *row) for place, row in enumerate(made)]


def as_stored(dialect: str, cell: Any, place: int) -> Any:
    """Return a cell as a database takes it; SQLite has ISO texts, of whatever spelling."""
    if cell is None or isinstance(cell, int) or dialect not in ("sqlite", "clickhouse", "mysql"):
        return cell
    if dialect != "sqlite" or not isinstance(cell, datetime.datetime):
        return str(cell)
    return cell.isoformat("T" if place % 2 else " ") + ("Z" if place % 3 == 0 else "")


@pytest.fixture(params=list(ELSEWHERE))
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Elsewhere]:
    """Open each other database in turn."""
    opened = ELSEWHERE[request.param]()
    yield opened
    opened.close()


def model() -> Model:
    """Return a model with many splits on each of the three features."""
    forest = small_forest(SCHEMA, trees=15, depth=5)
    return model_of(voting(forest, 2), SCHEMA, "dated")


def test_dates_are_predicted_alike_elsewhere(elsewhere: Elsewhere) -> None:
    """At every edge, a microsecond before and after it, and where a date is missing."""
    moved = [tuple(as_stored(elsewhere.dialect, cell, row[0]) for cell in row) for row in rows()]
    elsewhere.fill({KEY: "BIGINT", "joined": "DATE", "seen": "TIMESTAMP", "early": "TIMESTAMP"}, moved)
    frame = pd.DataFrame(rows(), columns=[KEY, "joined", "seen", "early"]).astype(object)
    own = model().labels(frame).tolist()
    assert len(set(own)) == 2
    assert [row[1] for row in elsewhere.scored(model())] == own


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_writes_a_script(dialect: str) -> None:
    """Also those that cannot be run here: their scripts parse again, and compare with dates rather than numbers."""
    import sqlglot

    script = export_script(model(), dialect=dialect, table="new_rows")
    assert len(sqlglot.parse(script, dialect=dialect)) >= 5
    assert "86400" not in script


def test_pandas_reads_all_kinds_of_columns() -> None:
    """Objects, ISO texts, NumPy's own times of any precision, with a time zone or without, give the same labels."""
    frame = pd.DataFrame(rows(), columns=[KEY, "joined", "seen", "early"]).astype(object)
    expected = model().labels(frame).tolist()
    texts = frame.map(lambda cell: None if cell is None else str(cell))
    times = frame.assign(**{name: pd.to_datetime(frame[name]) for name in ("joined", "seen", "early")})
    zoned = times.assign(seen=times["seen"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    fine = times.astype({"joined": "datetime64[ns]", "seen": "datetime64[ns]", "early": "datetime64[us]"})
    for other in (texts, times, zoned, fine):
        assert model().labels(other).tolist() == expected


def test_onnx_takes_numbers_and_says_of_what(tmp_path: Path) -> None:
    """The input is a double of units since 1970; the metadata has the unit of each."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "dated.onnx"
    model().export_onnx(path)
    facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(facts["dpsql.units_since_1970_utc"]) == {"joined": "day", "seen": "second", "early": "hour"}
    frame = pd.DataFrame(rows(), columns=[KEY, "joined", "seen", "early"]).astype(object)
    inputs = {
        feature.name: np.array([[feature.number(cell)] for cell in frame[feature.name]], np.float64)
        for feature in SCHEMA.features
        if isinstance(feature, Dated)
    }
    labels = runtime.InferenceSession(path.read_bytes()).run(["label"], inputs)[0]
    assert labels.tolist() == model().labels(frame).tolist()
