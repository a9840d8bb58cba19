"""What rows hold never makes a purchase end in an error that its noisy answers do not explain, once it is paid for."""

from __future__ import annotations

import duckdb
import pytest
import yaml

import dpsql
from dpsql.schema import Dated

pytestmark = pytest.mark.usefixtures("steady_bounds")


@pytest.mark.parametrize(
    ("kind", "far", "expected"),
    [
        ("DATE", ["9999-12-31"], ("1970", "9999")),
        ("DATE", ["infinity"], ("2014", "2059")),  # no day is beyond 9999, so these rows are clamped
        ("TIMESTAMP", ["9999-12-31 00:00:00"], ("1970", "9999")),
        ("TIMESTAMP", ["infinity", "-infinity"], ("2004", "2038")),
    ],
)
def test_far_dates_are_cut_off_at_the_years_that_can_be_declared(
    kind: str, far: list[str], expected: tuple[str, str]
) -> None:
    """A column that says "no end" by a far date is bought like any other, and the table is registered."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people (d {kind}, y VARCHAR)")
    for cell in ["2020-01-01", *far]:
        label = "CASE WHEN range % 2 = 0 THEN 'no' ELSE 'yes' END"
        connection.execute(f"INSERT INTO people SELECT CAST('{cell}' AS {kind}), {label} FROM range(3000)")
    with dpsql.connect(connection) as db:
        feature = db.buy_schema("people", label="y", buy=1, cap=9).dataset.schema.feature("d")
        assert isinstance(feature, Dated)
        assert (feature.text(feature.lower)[:4], feature.text(feature.upper)[:4]) == expected


def test_a_column_of_endless_dates_alone_is_left_out() -> None:
    """No bounds that can be declared hold them; the other columns are registered."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (d DATE, x DOUBLE, y VARCHAR)")
    connection.execute(
        "INSERT INTO people SELECT 'infinity', 3, CASE WHEN range % 2 = 0 THEN 'no' ELSE 'yes' END FROM range(5000)"
    )
    with dpsql.connect(connection) as db:
        bought = db.buy_schema("people", label="y", buy=1, cap=9)
        assert [feature.name for feature in bought.dataset.schema.features] == ["x"]


def test_hostile_texts_that_are_common_become_values_of_a_file_that_reads_back() -> None:
    """Texts with quotes, brackets and line ends are values and nothing else; one with a NUL is passed over."""
    odd = ["]}\nlabel: z", "# x", "null", "1e5", "'", "\u2028", "true", '"', "a: b", "\\", "", " a", "{", "- a", "\r\n"]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (c VARCHAR, y VARCHAR)")
    for text in [*odd, "a\x00b"]:
        label = "CASE WHEN range % 2 = 0 THEN 'no' ELSE 'yes' END"
        connection.execute(f"INSERT INTO people SELECT ?, {label} FROM range(600)", [text])
    with dpsql.connect(connection) as db:
        bought = db.buy_schema("people", label="y", buy=5, delta="1e-6", cap=9)
        written = yaml.safe_load(str(bought))
    assert written["label"] == "y"
    assert set(written["features"]["c"]["values"]) == set(odd)
    assert all(type(value) is str for value in written["features"]["c"]["values"])
