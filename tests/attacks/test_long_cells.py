"""Cells of hundreds of megabytes, and of bytes that are no text, make no run on PostgreSQL fail (finding 14)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sqlglot import exp

import dpsql
from dpsql.api.database import Database
from dpsql.engines.postgres import vocabulary
from dpsql.engines.postgres.vocabulary import PostgresVocabulary
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.dataset import find_dataset, source
from tests.attacks.test_equality import schema
from tests.conformance.tables import run_in
from tests.servers import OPEN_EMPTY, postgres

ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 2, "depth": 1}


@pytest.mark.parametrize("short", [0, vocabulary._SHORT_CELLS])
def test_rows_are_told_apart_by_every_cell_and_its_place(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    """NULL is no text, the same value in another column is another row, equal rows have one hash: long cells or not."""
    monkeypatch.setattr(vocabulary, "_SHORT_CELLS", short)
    cells = [exp.column("a"), exp.column("b"), exp.column("n")]
    hashed = PostgresVocabulary().keyed_hash(cells, [7, 8]).sql("postgres")
    given = "('x', 'y', 1), ('y', 'x', 1), ('x', NULL, 1), (NULL, 'x', 1), (NULL, '', 1), ('', NULL, 1), ('x', 'y', 2)"
    query = f"SELECT a, b, n, {hashed} AS hash FROM (VALUES {given}, ('x', 'y', 1)) AS rows(a, b, n)"
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db, db.engine.transaction() as transaction:
        found = transaction.rows(query)
    assert len({row["hash"] for row in found}) == 7
    assert found[0]["hash"] == found[-1]["hash"]


def test_long_texts_are_not_put_into_one_record() -> None:
    """Two texts of 540 MB, some megabytes as stored, are more than PostgreSQL lets a record hold."""
    unit = {"privacy_unit": {"column": "unit", "max_rows": 1}}
    names = ("c", "d")
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(db.engine, "CREATE TABLE public.people (x FLOAT8, y TEXT, unit BIGINT, c TEXT, d TEXT)")
        features = {name: {"type": "categorical", "values": ["a", "b"]} for name in names}
        db.register("people", schema(features=features, **unit), cap=2)
        run_in(db.engine, "INSERT INTO public.people VALUES (0.1, 'no', 1, repeat('a', 540000000), 'b')")
        run_in(db.engine, "UPDATE public.people SET d = repeat('b', 540000000)")
        try:
            assert db.train("people", **ASKED).table == "people"
        finally:
            run_in(db.engine, "DROP TABLE public.people")  # no dump of the whole server could hold it


def test_another_letter_case_of_a_long_text_is_not_asked_for() -> None:
    """PostgreSQL fails on LOWER of a text of more than 512 MB; a view's own LOWER leaves a long text as it is."""
    with Database(OPEN_EMPTY["postgres"](), who="ann") as db:
        run_in(db.engine, "CREATE TABLE public.people (x FLOAT8, y TEXT, c TEXT)")
        run_in(db.engine, "CREATE VIEW public.lowered AS SELECT x, y, lower(upper(c)) AS c FROM public.people")
        run_in(db.engine, "INSERT INTO public.people VALUES (0.1, 'no', 'A'), (0.2, 'yes', 'b'), (0.3, 'yes', NULL)")
        declared = schema(features={"c": {"type": "categorical", "values": ["a", "b"]}})
        db.register("lowered", declared, cap=1)
        read = source(db.engine, find_dataset(db.engine, db.book, "lowered")).column("c")
        assert read.sql("postgres").startswith("CASE WHEN OCTET_LENGTH(")
        with db.engine.workspace() as here:
            asked = exp.select(exp.alias_(read, "c"), exp.alias_(exp.Count(this=exp.Star()), "n")).from_(
                "public.people"
            )
            found = here.aggregate(asked.group_by(read.copy()), {})
        assert set(found["c"]) == {"a", "b", None}
        assert db.train("lowered", **ASKED).table == "lowered"


def test_texts_that_are_no_texts_are_refused() -> None:
    """In a database of encoding SQL_ASCII a cell can hold any bytes, on which LOWER and others fail."""
    psycopg = pytest.importorskip("psycopg")
    url = f"{postgres()}/bytes{os.getpid()}"
    with psycopg.connect(f"{postgres()}/postgres", autocommit=True) as connection:
        made = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.execute(f"CREATE DATABASE bytes{os.getpid()} {made}")
    with dpsql.connect(url) as db:
        run_in(db.engine, "CREATE TABLE public.people (x FLOAT8, y TEXT)")
        with pytest.raises(SchemaError, match="SQL_ASCII"):
            db.register("people", schema(), cap=1)
