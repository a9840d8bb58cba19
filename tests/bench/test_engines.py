"""The bench of servers: figures of both engines, and no scratch table left behind."""

from __future__ import annotations

import pytest

from dpsql.bench import engines
from dpsql.bench.engine_commands import engines_table
from dpsql.engines.open_engine import open_engine
from dpsql.errors import ParameterError
from tests.servers import fresh_database, spark


@pytest.fixture
def url() -> str:
    """Return the URL of an empty database."""
    return fresh_database()


def test_both_engines_are_measured_in_turns(url: str) -> None:
    """CPU and wall time of each, and what one is of the other."""
    figures = engines.measure_engine(url, [2000, 4000], repeat=2)
    assert [one["rows"] for one in figures["sizes"]] == [2000, 4000]
    for one in figures["sizes"]:
        assert one["cpu"] is not None
        assert one["cpu_ratio"] == pytest.approx(one["cpu"] / one["duckdb_cpu"])
        assert one["wall_ratio"] == pytest.approx(one["wall"] / one["duckdb_wall"])
    assert engines_table(figures).row_count == 2


def test_nothing_is_left_behind(url: str) -> None:
    """The scratch table goes, also when the bench fails."""
    engines.measure_engine(url, [100], repeat=1)
    engine = open_engine(url)
    assert engine.tables() == []
    engine.close()


def test_spark_is_measured_beside_duckdb() -> None:
    """Its wall time alone, the first round apart, on Parquet that goes at the end."""
    spark()  # the session of these tests is shared, so the bench must not stop it
    figures = engines.measure_engine("spark://local[2]", [500], repeat=2)
    (one,) = figures["sizes"]
    assert one["cpu"] is None
    assert min(one["first"], one["second"]) == one["wall"] > 0
    assert spark().range(2).count() == 2


def test_training_is_measured_by_its_method() -> None:
    """From the charge to the stored model, in a ledger that is thrown away; a server's own would keep the charges."""
    spark()
    figures = engines.measure_engine("spark://local[2]", [500], repeat=2, method="rosnam")
    (one,) = figures["sizes"]
    assert 0 < one["second_ratio"] <= one["second"] / one["duckdb_wall"]
    assert str(engines_table(figures).title).startswith("Training rosnam, 10 trees")
    with pytest.raises(ParameterError, match="ledger keeps every charge"):
        engines.measure_engine("postgresql://localhost/none", [500], repeat=1, method="rosnam")


def test_a_file_is_no_server() -> None:
    """It would be DuckDB beside DuckDB."""
    with pytest.raises(ParameterError, match="a server"):
        engines.measure_engine("people.duckdb", [500], repeat=1)
