"""A text that Python cannot read is never the reason that a selection of common values fails.

One row more than a unit can contribute would bring such a text out of the database; if that failed, every purchase
would tell whether that row is there, and no noise would hide it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from dpsql.compile.count.value_counts import LONGEST
from dpsql.compile.rows import EVERY_UNIT
from dpsql.engines.base import Engine
from dpsql.engines.open_engine import open_engine
from dpsql.kernel.datasets.dataset import resolve, source
from dpsql.kernel.exact import Rows
from dpsql.schema import Schema
from tests.conformance.tables import run_in
from tests.servers import OPEN_EMPTY, fresh_database, postgres
from tests.tables import dataset_of

SCHEMA = Schema.from_dict({"label": None, "features": {"c": {"type": "categorical", "values": ["?"]}}})
_TEXT = {"clickhouse": "Nullable(String)", "spark": "string", "postgres": "text", "duckdb": "VARCHAR"}
_ENDING = {"spark": " USING parquet", "clickhouse": " ENGINE = MergeTree ORDER BY tuple()"}
_LONG = f"repeat('x', {LONGEST + 1})"
#: Cells of each engine that are no text in UTF-8 (a lone surrogate and an overlong zero among them), or too long.
ODD = {
    "clickhouse": [*(f"unhex('{digits}')" for digits in ("FFFE", "EDA080", "C080", "61E282")), _LONG],
    "spark": [*(f"cast(x'{digits}' as string)" for digits in ("FFFE", "EDA080", "C080", "61E282")), _LONG],
    "postgres": [_LONG],
    "duckdb": [_LONG],
}


def selected(engine: Engine, cells: list[str]) -> dict[tuple[str, str], int]:
    """Return which texts of a table with these cells more than one row has, as a selection counts them."""
    full = f"{engine.home}.people"
    run_in(engine, f"DROP TABLE IF EXISTS {full}")
    run_in(engine, f"CREATE TABLE {full} (c {_TEXT[engine.dialect]}){_ENDING.get(engine.dialect, '')}")
    run_in(
        engine, f"INSERT INTO {full} SELECT * FROM ({' UNION ALL '.join(f'SELECT {cell} AS c' for cell in cells)}) t"
    )
    resolve(engine, "people", SCHEMA)
    rows = Rows(engine, source(engine, dataset_of(engine, "people", SCHEMA)), {})
    try:
        return rows.common_values(["c"], EVERY_UNIT, more_than=1)
    finally:
        rows.close()


@pytest.mark.parametrize("name", sorted(OPEN_EMPTY))
def test_a_text_that_cannot_be_read_is_passed_over(name: str) -> None:
    """Twice in the table, past the largest contribution of one row: the others come out as without it."""
    engine = OPEN_EMPTY[name]()
    try:
        longest = f"repeat('y', {LONGEST})"
        common = ["'caf\u00e9'", "'caf\u00e9'", "''", "''", longest, longest]
        expected = {("c", "caf\u00e9"): 2, ("c", ""): 2, ("c", "y" * LONGEST): 2}
        assert selected(engine, common) == expected
        assert selected(engine, [*common, *ODD[engine.dialect]]) == expected
        assert selected(engine, [*common, *ODD[engine.dialect] * 2]) == expected
    finally:
        engine.close()


@pytest.fixture
def latin_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have PostgreSQL send texts in LATIN1, as a setting of the client asks for."""
    monkeypatch.setitem(os.environ, "PGCLIENTENCODING", "LATIN1")


@pytest.mark.usefixtures("latin_clients")
def test_no_setting_of_the_client_makes_texts_unreadable() -> None:
    """In LATIN1 the server could not send a euro sign: its own error would say that it is there."""
    engine = open_engine(fresh_database())
    try:
        assert selected(engine, ["'\u20ac'", "'\u20ac'", "'a'"]) == {("c", "\u20ac"): 2}
    finally:
        engine.close()


@pytest.mark.parametrize(("encoding", "expected"), [("WIN1252", {}), ("LATIN1", {("c", "\x81"): 2, ("c", "a"): 2})])
def test_no_encoding_of_the_server_makes_a_selection_fail(encoding: str, expected: dict[Any, int]) -> None:
    """WIN1252 stores bytes that are no character, and cannot send them."""
    psycopg = pytest.importorskip("psycopg")
    name = f"t{os.getpid()}_{encoding.lower()}"
    with psycopg.connect(f"{postgres()}/postgres", autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    engine = open_engine(f"{postgres()}/{name}")
    try:
        assert selected(engine, ["chr(129)", "chr(129)", "'a'", "'a'"]) == expected
    finally:
        engine.close()


def test_columns_of_different_collations_can_be_asked_about_together() -> None:
    """PostgreSQL would refuse to compare their texts, after the charge: each purchase would be lost."""
    engine = open_engine(fresh_database())
    try:
        run_in(
            engine, 'CREATE TABLE public.people (a text COLLATE "C", b varchar(9) COLLATE "POSIX", c char(9), d text)'
        )
        run_in(engine, "INSERT INTO public.people SELECT 'u', 'v', 'w', 'x' FROM generate_series(1, 5)")
        features = {name: {"type": "categorical", "values": ["?"]} for name in "abcd"}
        schema = Schema.from_dict({"label": None, "features": features})
        rows = Rows(engine, source(engine, dataset_of(engine, "people", schema)), {})
        try:
            assert rows.common_values(list("abcd"), EVERY_UNIT, more_than=1) == dict.fromkeys(
                zip("abcd", "uvwx", strict=True), 5
            )
        finally:
            rows.close()
    finally:
        engine.close()
