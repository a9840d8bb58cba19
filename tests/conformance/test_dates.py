"""Dates and timestamps as numbers: every type of every engine, under two time zones, against plain Python."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import Database
from dpsql.compile.count.leaf_predicate import leaf_query
from dpsql.compile.rows import EVERY_UNIT
from dpsql.engines.base import Engine
from dpsql.kernel.exact import Rows
from dpsql.schema import Dated, Schema
from dpsql.schema.dated import rounded_microseconds
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.conformance.tables import run_in, source_in
from tests.rows import walk
from tests.tables import model_of, rows_of, small_forest, voting

ZONES = ("Asia/Tokyo", "America/New_York")
DAY = 86_400 * 10**6
EPOCH = datetime.datetime(1970, 1, 1)
#: Each type's number of nanoseconds in its finest part.
DUCKDB = {
    "DATE": DAY * 1000, "TIMESTAMP_S": 10**9, "TIMESTAMP_MS": 10**6, "TIMESTAMP": 1000,
    "TIMESTAMP_NS": 1, "TIMESTAMP WITH TIME ZONE": 1000,
}  # fmt: skip
POSTGRES = {
    "date": DAY * 1000,
    "timestamp": 1000,
    "timestamp with time zone": 1000,
    "timestamp(3)": 10**6,
    "timestamp(3) with time zone": 10**6,
}
SPARK = {"date": DAY * 1000, "timestamp": 1000, "timestamp_ntz": 1000}
CLICKHOUSE = {
    "Date": DAY * 1000, "Date32": DAY * 1000, "DateTime('Europe/Berlin')": 10**9, "DateTime64(0)": 10**9,
    "DateTime64(3)": 10**6, "DateTime64(6, 'Asia/Tokyo')": 1000, "DateTime64(9)": 1,
}  # fmt: skip
TYPES = {"duckdb": DUCKDB, "postgres": POSTGRES, "spark": SPARK, "clickhouse": CLICKHOUSE}
#: What cannot be written as a moment: its literal, and the number of units that Python has for it.
ODD: dict[str, dict[str, list[tuple[str, float]]]] = {
    "duckdb": {
        "DATE": [("'infinity'", math.inf), ("'-infinity'", -math.inf), ("'5877642-06-25 (BC)'", -(2.0**31) + 2),
                 ("'5881580-07-10'", 2.0**31)],
        "TIMESTAMP": [("'infinity'", math.inf), ("'-infinity'", -math.inf),
                      ("make_timestamp(-9223372036854775806)", -1e15),
                      ("'294247-01-10 04:00:54.775806'", 1e15)],
        "TIMESTAMP_S": [("'infinity'", math.inf), ("'-infinity'", -math.inf)],
        "TIMESTAMP_MS": [("'infinity'", math.inf), ("'-infinity'", -math.inf)],
        "TIMESTAMP_NS": [("'infinity'", math.inf), ("'-infinity'", -math.inf)],
        "TIMESTAMP WITH TIME ZONE": [("'infinity'", math.inf), ("'-infinity'", -math.inf)],
    },
    "postgres": {
        "date": [("'infinity'", math.inf), ("'-infinity'", -math.inf), ("'4713-01-01 BC'", -1e15),
                 ("'5874897-12-31'", 1e15)],
        "timestamp": [("'infinity'", math.inf), ("'-infinity'", -math.inf), ("'4713-01-01 00:00:00 BC'", -1e15),
                      ("'294276-12-31 23:59:59.999999'", 1e15)],
        "timestamp with time zone": [("'infinity'", math.inf), ("'-infinity'", -math.inf)],
        "timestamp(3)": [],
        "timestamp(3) with time zone": [],
    },
    "spark": {
        "date": [("date'-4713-01-01'", -1e15), ("date'+200000-12-31'", 1e15)],
        "timestamp": [("timestamp_micros(9223372036854775807)", 1e15),
                      ("timestamp_micros(-9223372036854775808)", -1e15)],
        "timestamp_ntz": [("timestamp_ntz'9999-12-31 23:59:59'", 1e15), ("timestamp_ntz'0001-01-01 00:00:00'", -1e15)],
    },
    "clickhouse": {
        "DateTime64(0)": [("fromUnixTimestamp64Second(9223372036854775807)", 1e15)],
        "DateTime64(6, 'Asia/Tokyo')": [("reinterpret(toInt64(-9223372036854775808), 'DateTime64(6)')", -1e15)],
        "DateTime64(9)": [("reinterpret(toInt64(9223372036854775807), 'DateTime64(9)')", 1e15)],
    },
}  # fmt: skip
FEATURES = (
    Dated("days", "2015-01-01", "2026-12-31"),
    Dated("fine", "1999-12-31T23:00:00", "2003-03-01", kind="timestamp"),
    Dated("hours", "1969-06-01", "1971-01-01", cells=17, null="1970-06-01", unit="hour", kind="timestamp"),
    Dated("minutes", "2020-02-28", "2020-03-02", null="2020-03-02", unit="minute"),
)


def nanoseconds() -> list[int]:
    """Return moments at, right before and right after edges of all features, and some that are finer than those."""
    moments = {0, -1, 1, 499, 500, 501, -499, -500, -501, -1501}
    for feature in FEATURES:
        for edge in (feature.lower, *feature.edges[::5], feature.upper):
            first = feature.first_moment(edge) * 1000
            moments |= {first, first - 1000, first + 1000, first - 500, first - 501, first - 499}
    return sorted(moments)


def literal(dialect: str, kind: str, nanosecond: int) -> str:
    """Return a moment as SQL of a type."""
    if dialect == "clickhouse":
        if "64" in kind:
            return f"reinterpret(toInt64({nanosecond // TYPES[dialect][kind]}), 'DateTime64({kind[11]})')"
        part = nanosecond // TYPES[dialect][kind]
        return f"toDate32({part})" if kind.startswith("Date3") else str(part)
    moment = EPOCH + datetime.timedelta(microseconds=nanosecond // 1000)
    text = moment.isoformat(" ")
    if kind.lower() == "date":
        text = moment.date().isoformat()
    elif kind == "TIMESTAMP_NS":
        text = moment.isoformat(" ", "microseconds") + f"{nanosecond % 1000:03d}"
    elif dialect == "spark" and kind == "timestamp":
        return f"timestamp_micros({nanosecond // 1000})"
    elif "zone" in kind.lower():
        text += "+00"
    return f"{kind}'{text}'" if dialect == "spark" else f"'{text}'"


def cells_of(dialect: str, kind: str) -> list[tuple[str, Any]]:
    """Return the literals of a type, and what Python says each is: a moment, or a number far from all bounds."""
    cells: list[tuple[str, Any]] = [("NULL", None), *ODD[dialect].get(kind, [])]
    for nanosecond in nanoseconds():
        part = TYPES[dialect][kind]
        cut = nanosecond // part * part
        if kind in ("Date", "DateTime('Europe/Berlin')") and cut < 0:
            continue
        moment = EPOCH + datetime.timedelta(microseconds=rounded_microseconds(cut))
        cells.append((literal(dialect, kind, cut), moment.date() if part == DAY * 1000 else moment))
    return cells


@pytest.fixture(params=ZONES)
def zoned(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Open an empty database of each engine, whose sessions have a time zone far from UTC."""
    opened: Any = engine
    if engine.dialect == "spark":
        if request.param == ZONES[0]:
            pytest.skip("spark: a statement takes seconds, so one zone must do")
        opened.session.conf.set("spark.sql.session.timeZone", request.param)
    elif engine.dialect == "duckdb":
        if request.param == ZONES[0]:
            pytest.skip("duckdb: a time zone needs the extension icu, which dpsql's own connections never load")
    elif engine.dialect == "postgres":
        name = rows_of(engine, "SELECT current_database() AS name")[0]["name"]
        run_in(engine, f"ALTER DATABASE {name} SET timezone = '{request.param}'", f"SET timezone = '{request.param}'")
    else:
        run_in(engine, f"SET session_timezone = '{request.param}'")
    yield opened
    if engine.dialect == "clickhouse":
        run_in(engine, "SET session_timezone = ''")


def put_moments(engine: Any, kind: str) -> tuple[Schema, list[dict[str, Any]]]:
    """Create a table whose features all hold the same moments of one type; return its schema and rows in Python."""
    cells = cells_of(engine.dialect, kind)
    names = [feature.name for feature in FEATURES]
    own = f"Nullable({kind})" if engine.dialect == "clickhouse" else kind
    text = {"clickhouse": "String", "spark": "string"}.get(engine.dialect, "TEXT")
    number = {"clickhouse": "Int32"}.get(engine.dialect, "INT")
    ending = {"spark": " USING parquet", "clickhouse": " ENGINE = MergeTree ORDER BY tuple()"}.get(engine.dialect, "")
    full = f"{engine.home}.moments"
    defined = ", ".join(f"{name} {own}" for name in names)
    run_in(engine, f"DROP TABLE IF EXISTS {full}")
    run_in(engine, f"CREATE TABLE {full} (id {number}, y {text}, {defined}){ending}")
    rows, values = [], []
    for place, (written, value) in enumerate(cells):
        label = ("no", "yes")[place % 2]
        rows.append({"id": place, "y": label, **dict.fromkeys(names, value)})
        values.append(f"({place}, '{label}', {', '.join([written] * len(names))})")
    run_in(engine, f"INSERT INTO {full} VALUES {', '.join(values)}")
    return Schema("y", ("no", "yes"), FEATURES), rows


def kinds(engine: Engine) -> list[str]:
    """Return the types of an engine."""
    return list(TYPES[engine.dialect])


def test_every_moment_is_in_the_cell_that_python_says(zoned: Any) -> None:
    """Counts of every leaf, for every type, at all edges and extremes, whatever the session's time zone."""
    for kind in kinds(zoned):
        schema, rows = put_moments(zoned, kind)
        forest = random_forest(axes(schema), trees=8, depth=5, seed=3)
        expected = np.zeros((forest.leaves, 2), np.int64)
        for row in rows:
            for leaf in walk(schema, forest, row):
                expected[leaf, schema.classes.index(row["y"])] += 1
        counted = Rows(zoned, source_in(zoned, schema, "moments"), {})
        try:
            assert (counted.leaf_counts(forest, EVERY_UNIT, shared=True) == expected).all(), kind
        finally:
            counted.close()


def test_the_readable_query_of_a_leaf_counts_exactly_its_rows(zoned: Any) -> None:
    """Each row satisfies the predicate of the leaf that it reaches in Python, and of no other."""
    kind = kinds(zoned)[-1] if zoned.dialect == "spark" else None
    for own in [kind] if kind else kinds(zoned):
        schema, rows = put_moments(zoned, own)
        forest = random_forest(axes(schema), trees=1, depth=3, seed=5)
        source = source_in(zoned, schema, "moments")
        for leaf in range(0, forest.leaves, 4 if kind else 1):
            expected = Counter(row["y"] for row in rows if walk(schema, forest, row)[0] == leaf)
            query = leaf_query(source, forest, leaf, zoned.vocabulary)
            counted = zoned.frame(query)
            assert dict(zip(counted.iloc[:, 0], counted.iloc[:, 1], strict=True)) == expected, own


def test_every_moment_is_predicted_as_python_does(zoned: Any) -> None:
    """Row by row, in the database and in pandas."""
    with Database(zoned, who="ann") as database:
        for kind in kinds(zoned)[-2:]:
            schema, rows = put_moments(zoned, kind)
            forest = small_forest(schema, trees=7, depth=4)
            database.add(model_of(voting(forest, 2), schema, f"m{kinds(zoned).index(kind)}"))
            model = database.model(f"m{kinds(zoned).index(kind)}")
            scored = model.predict("moments", key="id").sort_values("id")
            own = model.predict(pd.DataFrame({name: [row[name] for row in rows] for name in rows[0]}, dtype=object))
            assert len(set(own)) == 2
            assert scored.iloc[:, -1].tolist() == list(own), kind
