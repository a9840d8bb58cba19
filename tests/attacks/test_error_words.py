"""What a failed run says: one sentence, whatever failed, for the cause can depend on private rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines.duckdb.cursor import COUNTING, replace_errors
from dpsql.errors import DpsqlError, QueryFailed
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job, run
from dpsql.kernel.session import Session
from dpsql.schema import Unit
from tests.releases import releasing
from tests.tables import on_disk, some_rows

PLAN = Plan("test", Step("n", Size(), 10**9), Promise(Unit()))


def fail_in_the_engine(kind: type[duckdb.Error]) -> Callable[[Session], Any]:
    """Return a request that fails as a count in DuckDB does."""

    def fail() -> None:
        raise kind("a cell of 4711")

    return lambda _: replace_errors(COUNTING, fail)


def fail_in_python(kind: type[Exception]) -> Callable[[Session], Any]:
    """Return a request that fails in Python."""

    def fail(_: Session) -> Any:
        raise kind("a cell of 4711")

    return fail


FAILURES = {
    "a value out of range": fail_in_the_engine(duckdb.OutOfRangeException),
    "a value that is none": fail_in_the_engine(duckdb.ConversionException),
    "too little memory": fail_in_the_engine(duckdb.OutOfMemoryException),
    "an overflow": fail_in_python(OverflowError),
    "a mistake of ours": fail_in_python(KeyError),
    "no memory": fail_in_python(MemoryError),
}


def words_of(path: Path, ask: Callable[[Session], Any]) -> str:
    """Return all that a failed run tells: the class, the message, the hint and the attributes of its error."""
    with on_disk(path, some_rows(), cap=5) as database:
        dataset = find_dataset(database.engine, database.book, "people")
        job = Job.of(dataset, PLAN, who="ann", request_id="r")
        with pytest.raises(DpsqlError) as caught:
            run(database.engine, database.book, job, releasing(ask))
        return f"{type(caught.value)} {caught.value} {vars(caught.value)}"


def test_every_failure_has_the_same_words(tmp_path: Path) -> None:
    """Whether the database refused a cell, memory ran out or Python overflowed: the analyst cannot tell."""
    told = {words_of(tmp_path / f"data_{place}.duckdb", ask) for place, ask in enumerate(FAILURES.values())}
    assert len(told) == 1
    assert "4711" not in told.pop()


#: Errors of a server that follow from how many rows there are: files, memory, time, locks, limits.
SERVERS = ["53400", "53100", "53200", "54000", "57014", "40001", "42501", "25006", "55P03", "08006", "57P01", "XX000"]


def test_a_count_that_fails_on_a_server_says_one_thing() -> None:
    """Whatever PostgreSQL's own word for it is: a limit on temporary files is no lost connection."""
    postgres = pytest.importorskip("dpsql.engines.postgres.cursor")
    psycopg = pytest.importorskip("psycopg")
    told = set()
    for state in SERVERS:

        def fail(state: str = state) -> None:
            raise psycopg.errors.lookup(state)("a cell of 4711")

        with pytest.raises(QueryFailed) as caught:
            postgres.replace_errors(postgres.COUNTING, fail)
        told.add(f"{type(caught.value)} {caught.value} {caught.value.hint} {vars(caught.value)}")
    assert len(told) == 1


def test_a_count_that_fails_on_spark_says_one_thing() -> None:
    """Whether a statement or a worker failed."""
    spark = pytest.importorskip("dpsql.engines.spark.cursor")
    errors = pytest.importorskip("pyspark.errors")
    told = set()
    for kind in (errors.AnalysisException, errors.PySparkException, OSError):

        def fail(kind: type[Exception] = kind) -> None:
            raise kind("a cell of 4711")

        with pytest.raises(QueryFailed) as caught:
            spark.replace_errors(spark.COUNTING, fail)
        told.add(f"{caught.value} {caught.value.hint}")
    assert len(told) == 1
