"""`examples/plain_tables` goes from a CSV file to an evaluated model, with a schema file and without one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.schema.schema_file import loads
from examples.plain_tables.__main__ import BY_HAND, FORMS, HASHED, PlainFigure, commands, measure_table, schema_text
from examples.plain_tables.make_tables import TABLES, PlainTable


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_schema_by_hand_fits_the_table(table: PlainTable) -> None:
    """It has all columns but the identifier, and the same seed makes the same rows of 15 to 30 columns."""
    rows = table.make(300, 0)
    assert rows.equals(table.make(300, 0))
    assert not rows.equals(table.make(300, 1))
    assert 15 <= rows.shape[1] <= 30
    schema = loads(schema_text(table))
    assert [feature.name for feature in schema.features] == list(rows.columns[1:-1])
    assert schema.label == table.label == rows.columns[-1]


def test_yes_and_no_are_loaded_as_booleans(tmp_path: Path) -> None:
    """That is what CREATE TABLE from a CSV file makes of the label and of six columns of the stays."""
    table = next(table for table in TABLES if table.name == "stays")
    table.make(200, 0).to_csv(tmp_path / "stays.csv", index=False)
    types = duckdb.sql(f"FROM '{tmp_path / 'stays.csv'}'").types
    assert [str(kind) for kind in types].count("BOOLEAN") == 7


def test_a_table_is_registered_trained_and_measured_in_each_form() -> None:
    """One run on few rows: the owner types a tenth without a schema file, and every model is measured on fresh rows."""
    figures: dict[str, PlainFigure] = {figure.form: figure for figure in measure_table(TABLES[0], runs=1, rows=20_000)}
    assert tuple(figures) == FORMS
    assert figures[BY_HAND].lost == 0
    assert all(figure.accuracy > 60 for figure in figures.values())
    assert figures[HASHED].characters == len(commands(TABLES[0], HASHED)[0])
    assert 10 * figures[HASHED].characters < figures[BY_HAND].characters
