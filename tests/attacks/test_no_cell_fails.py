"""Finding 14: no cell makes a run fail, so that whether a run ends tells nothing about rows.

`tests/conformance/test_extremes.py` feeds every role with the extremes of every type; here are the cells that did it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.errors import SchemaError
from dpsql.schema import Schema
from dpsql.trees.voting import LARGEST_WEIGHT, VotingForest
from tests.attacks.test_equality import schema
from tests.conformance.tables import put, run_in
from tests.rows import Table
from tests.servers import OPEN_EMPTY
from tests.tables import model_of, small_forest

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 2, "depth": 1}
SMALLEST = 5e-324


@pytest.fixture(params=sorted(OPEN_EMPTY))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open an empty database of each engine."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        yield opened


@pytest.mark.parametrize("upper", [1e-300, 1.0, 1e300])
def test_the_smallest_target_is_counted(database: Database, upper: float) -> None:
    """PostgreSQL makes an error of a product that is too small for a double."""
    if database.engine.dialect == "spark" and upper != 1:
        pytest.skip("spark: a statement takes seconds, so one case must do")
    targets = [SMALLEST, -SMALLEST, 0.0, 1e-310, 2.3e-308, upper / 3, upper, 1e308, float("inf")]
    rows = Table({"x": "DOUBLE", "y": "DOUBLE"}, {"x": [0.5] * len(targets), "y": targets})
    put(database.engine, "people", rows)
    declared = schema(target={"lower": 0, "upper": upper, "steps": 100})
    del declared["classes"]
    database.register("people", declared, cap=1)
    assert database.train("people", **{**ASKED, "method": "auto"}).table == "people"


@pytest.mark.parametrize("classes", [("no", "yes"), ("no", "yes", "maybe")])
@pytest.mark.parametrize("nat", [1, LARGEST_WEIGHT, 0])
def test_scores_far_apart_are_evaluated(database: Database, classes: tuple[str, ...], nat: int) -> None:
    """A model that came from elsewhere can have any scores: their powers, squares and sums stay within the doubles."""
    if database.engine.dialect == "spark" and (nat != 1 or len(classes) == 2):
        pytest.skip("spark: a statement takes seconds, so the hardest case must do")
    declared = Schema.from_dict({**schema(), "classes": list(classes)})
    forest = small_forest(declared, trees=3, depth=1)
    weights = np.full((forest.leaves, len(classes)), -LARGEST_WEIGHT)
    weights[::2, 0] = LARGEST_WEIGHT
    weights[1::2, 1] = LARGEST_WEIGHT - 350
    numbers = [None, float("nan"), float("inf"), 0.1, 0.9, SMALLEST]
    labels = [classes[number % len(classes)] for number in range(len(numbers))]
    put(database.engine, "people", Table({"x": "DOUBLE", "y": "VARCHAR"}, {"x": numbers, "y": labels}))
    database.register("people", declared, cap=10**6)
    database.add(model_of(VotingForest(forest, weights, nat), declared, "m"))
    assert database.evaluate("m", "people", epsilon=10**5).rows == len(numbers)


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.time64("us")], ids=str)
def test_a_time_of_parquet_is_refused_as_a_unit(tmp_path: Path, kind: pa.DataType) -> None:
    """Parquet holds numbers for it that DuckDB fails to read, on the row that has one."""
    days = pa.array([0, 2**62], pa.int64()).view(kind)
    path = tmp_path / "people.parquet"
    parquet.write_table(pa.table({"x": [0.5, 0.5], "y": ["no", "yes"], "odd": days}), path)
    with dpsql.connect(path, ledger=":memory:") as db, pytest.raises(SchemaError, match='column "odd"'):
        db.register("people", schema(partition="odd"), cap=1)


@pytest.mark.parametrize("kind", ["bit varying", "bit varying[]", "xid", "json", "point", "money", "integer[]"])
@pytest.mark.parametrize("role", [{"privacy_unit": {"column": "odd", "max_rows": 1}}, {"partition": "odd"}])
def test_a_unit_without_a_hash_is_refused_when_registering(kind: str, role: dict[str, Any]) -> None:
    """Such a statement fails where it meets a row, and not on an empty table."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(db.engine, f"CREATE TABLE public.people (x FLOAT8, y TEXT, odd {kind})")
        with pytest.raises(SchemaError, match='column "odd"'):
            db.register("people", schema(**role), cap=1)
