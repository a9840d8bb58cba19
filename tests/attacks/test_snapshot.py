"""Finding 4: all statements of a run see one state of the table, whoever writes to it meanwhile.

An engine that cannot hold a state must fail instead: a row that is counted on both sides is paid for once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp

from dpsql.compile.rows import Part
from dpsql.engines.base import Engine
from dpsql.errors import DatabaseLocked, TableChanged
from dpsql.kernel.datasets import dataset as datasets
from dpsql.kernel.exact import Rows
from dpsql.kernel.plan import LABELLED, UNLABELLED
from tests.conformance.tables import put
from tests.rows import Table
from tests.tables import SCHEMA, dataset_of

ROWS = 60
#: What others may do to the table between two statements of a run, in each database's words.
CHANGES = {
    "label": {
        "duckdb": "UPDATE people SET y = 'yes' WHERE y IS NULL",
        "postgres": "UPDATE public.people SET y = 'yes' WHERE y IS NULL",
        "clickhouse": "ALTER TABLE people UPDATE y = 'yes' WHERE y IS NULL SETTINGS mutations_sync = 2",
    },
    "insert": {
        "duckdb": "INSERT INTO people SELECT * FROM people",
        "postgres": "INSERT INTO public.people SELECT * FROM public.people",
        "clickhouse": "INSERT INTO people SELECT * FROM people",
    },
    "empty": {
        "duckdb": "TRUNCATE people",
        "postgres": "TRUNCATE public.people",
        "clickhouse": "TRUNCATE TABLE people",
    },
    "replace": {
        "duckdb": "CREATE OR REPLACE TABLE people AS SELECT c, x, 'yes' AS y FROM people",
        "postgres": "ALTER SCHEMA public RENAME TO old; CREATE SCHEMA public; "
        "CREATE TABLE public.people AS SELECT c, x, CAST('yes' AS TEXT) AS y FROM old.people",
        "clickhouse": "CREATE OR REPLACE TABLE people ENGINE = MergeTree ORDER BY tuple() AS "
        "SELECT c, x, CAST('yes' AS Nullable(String)) AS y, 1 AS more FROM people",
    },
}


def people() -> Table:
    """Return rows of which every third has a label."""
    labels = ["no" if number % 3 == 0 else None for number in range(ROWS)]
    columns: dict[str, list[Any]] = {"c": ["a"] * ROWS, "x": [float(k) for k in range(ROWS)], "y": labels}
    return Table({"c": "VARCHAR", "x": "DOUBLE", "y": "VARCHAR"}, columns)


def change(engine: Any, what: str) -> None:
    """Do one of the changes, on a connection that is not the run's."""
    if engine.dialect == "spark" or engine.dialect not in CHANGES[what]:
        pytest.skip(f"{engine.dialect}: has a test of its own")
    text = CHANGES[what][engine.dialect]
    if engine.dialect == "clickhouse":
        engine.session.query(text)
    else:
        try:
            with engine.transaction() as other:
                other.run(text)
        except DatabaseLocked:
            return  # the run keeps them out


def rows_of(engine: Engine) -> Rows:
    """Return the private rows as a run holds them after its charge, those with and without a label apart."""
    dataset = dataset_of(engine, "people", SCHEMA)
    whole = datasets.source(engine, dataset)
    absent = exp.Is(this=whole.column("y"), expression=exp.Null())
    whole = replace(whole, labelled=False)
    return Rows(
        engine, whole, {UNLABELLED: whole.where_also(absent), LABELLED: whole.where_also(exp.not_(absent.copy()))}
    )


@pytest.mark.parametrize("what", CHANGES)
def test_both_sides_are_of_one_state(engine: Engine, what: str) -> None:
    """Rows that are labelled, added, removed or swapped between two counts are on one side, or the run fails."""
    put(engine, "people", people())
    with closing(rows_of(engine)) as rows:
        labelled = rows.size(Part(side=LABELLED))
        change(engine, what)
        try:
            unlabelled = rows.size(Part(side=UNLABELLED))
        except TableChanged:
            return
        assert (labelled, unlabelled) == (ROWS // 3, ROWS - ROWS // 3)
        assert rows.size(Part()) == ROWS


@pytest.mark.parametrize("what", ["replace"])
def test_a_table_that_was_put_in_its_place_is_not_read(engine: Engine, what: str) -> None:
    """A run was charged for a table: another one of that name, or other columns, are refused at the first statement."""
    put(engine, "people", people())
    with closing(rows_of(engine)) as rows:
        change(engine, what)
        with pytest.raises(TableChanged):
            rows.size(Part())
