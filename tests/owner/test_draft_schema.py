"""Drafts: what the catalog says is proposed, what it does not say is a placeholder, and no row is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.engines.base import Column, ColumnNote, Engine, TableInfo
from dpsql.engines.duckdb.open_database import adopt
from dpsql.errors import SchemaError, UnknownName
from dpsql.ledger import Ledger
from dpsql.owner.draft_schema import DraftRequest, draft_schema
from dpsql.schema import Boolean, Categorical, Dated, Feature, Numeric
from dpsql.schema.schema_file import loads

Make = Callable[[str], str]


class Catalog:
    """An engine that has a catalog and nothing else: whoever asks for rows gets an AttributeError."""

    dialect = "duckdb"
    path = None

    def __init__(self, *columns: Column, checks: tuple[str, ...] = ()) -> None:
        self.info = TableInfo("t", "main", "t", columns, "table", checks=checks)

    def tables(self) -> list[str]:
        """Return the only table."""
        return ["t"]

    def table(self, name: str) -> TableInfo | None:
        """Return what is known of the only table."""
        return self.info if name == "t" else None

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return nothing: the catalog has no comments and no keys."""
        return {}


def drafted(engine: Engine, table: str, label: str | None = None) -> str:
    """Return the draft of a table as a file."""
    return draft_schema(engine, Ledger(engine), table, DraftRequest(label)).text


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return an empty database."""
    with duckdb.connect() as opened:
        yield opened


def proposed(connection: duckdb.DuckDBPyConnection, column: str, extra: str = "") -> Feature:
    """Return the feature x that the draft of a table with this column proposes."""
    connection.execute(f"CREATE TABLE t (x {column}, label BOOLEAN{extra})")
    return loads(drafted(adopt(connection), "t")).features[0]


@pytest.mark.parametrize(
    ("column", "lower", "upper"),
    [
        ("INTEGER CHECK (x BETWEEN 1 AND 5)", 1, 5),
        ("INTEGER CHECK (x >= 0 AND x <= 10)", 0, 10),
        ("INTEGER CHECK (x > 0 AND x < 10)", 1, 9),
        ("INTEGER CHECK (x > 0.5 AND x < 9.5)", 1, 9),
        ("DOUBLE CHECK (x > 0 AND x < 10)", 0, 10),
        ("INTEGER CHECK (10 >= x AND -3 <= x)", -3, 10),
        ("INTEGER CHECK (x >= 0) CHECK (x <= 10) CHECK (x >= 2)", 2, 10),
        ("INTEGER CHECK (x > 2 AND x >= 2 AND x <= 5 AND x < 5)", 3, 4),
        ("DECIMAL(10, 2) CHECK (x BETWEEN -1.25 AND 99.99)", -1.25, 99.99),
        ("DOUBLE CHECK (x IN (0.5, 3, 2))", 0.5, 3),
        ("INTEGER CHECK (x BETWEEN 0 AND 10 AND (x < 3 OR label))", 0, 10),
        ("INTEGER CHECK (x BETWEEN 0 AND 10 AND x <> 3)", 0, 10),
    ],
)
def test_bounds_from_checks(connection: duckdb.DuckDBPyConnection, column: str, lower: float, upper: float) -> None:
    """Bounds in CHECK constraints become public bounds; several constraints are intersected."""
    assert proposed(connection, column) == Numeric("x", lower, upper)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("VARCHAR CHECK (x IN ('p', 'q'))", ("p", "q")),
        ("VARCHAR CHECK (x = 'p' OR x = 'q' OR 'no' = x)", ("p", "q", "no")),
        ("VARCHAR CHECK (x IN ('p', 'q', 'r')) CHECK (x IN ('r', 'q'))", ("q", "r")),
        ("INTEGER CHECK (x IN (1, 2, -3))", ("1", "2", "-3")),
        ("INTEGER CHECK (x IN (1, 2, 9) AND x < 5)", ("1", "2")),
        ("INTEGER CHECK (x = 1 OR x IN (2, 3))", ("1", "2", "3")),
        ("ENUM ('a', 'it''s', 'no', '')", ("a", "it's", "no", "")),
    ],
)
def test_values_from_checks(connection: duckdb.DuckDBPyConnection, column: str, values: tuple[str, ...]) -> None:
    """Lists in CHECK constraints and ENUM types become public values."""
    assert proposed(connection, column) == Categorical("x", values)


def test_boolean_column(connection: duckdb.DuckDBPyConnection) -> None:
    """A BOOLEAN column needs nothing more."""
    assert proposed(connection, "BOOLEAN") == Boolean("x")


@pytest.mark.parametrize(
    ("column", "part"),
    [
        ("INTEGER", "lower"),
        ("TINYINT", "lower"),
        ("UTINYINT", "lower"),
        ("HUGEINT", "lower"),
        ("DOUBLE", "lower"),
        ("INTEGER CHECK (x > 0)", "upper"),
        ("INTEGER CHECK (x < 9)", "lower"),
        ("INTEGER CHECK (x < 5 OR x > 2)", "lower"),
        ("INTEGER CHECK (NOT (x < 0 AND x > -5))", "lower"),
        ("INTEGER CHECK (x BETWEEN 5 AND 1)", "lower"),
        ("INTEGER CHECK (x + 1 BETWEEN 0 AND 5)", "lower"),
        ("INTEGER CHECK (x BETWEEN 3 AND 3)", "lower"),
        ("VARCHAR", "values"),
        ("VARCHAR CHECK (length(x) = 3)", "values"),
        ("VARCHAR CHECK (x IN ('a', NULL))", "values"),
        ("VARCHAR CHECK (x = 'a' OR label)", "values"),
        ("VARCHAR CHECK (x >= 'a' AND x <= 'c')", "values"),
    ],
)
def test_unknown_domain_is_a_placeholder(connection: duckdb.DuckDBPyConnection, column: str, part: str) -> None:
    """What the catalog does not say for sure is a placeholder, and loading the draft names it."""
    with pytest.raises(SchemaError, match=f'feature "x": {part} is still the placeholder'):
        proposed(connection, column)


def test_rows_do_not_matter(connection: duckdb.DuckDBPyConnection) -> None:
    """The draft of a filled table is the draft of the empty one."""
    connection.execute("CREATE TABLE t (x INTEGER CHECK (x > 0), c VARCHAR, label VARCHAR)")
    before = drafted(adopt(connection), "t")
    connection.execute("INSERT INTO t VALUES (5, 'secret', 'hidden'), (7, NULL, 'other')")
    assert drafted(adopt(connection), "t") == before


def test_only_the_catalog_is_asked() -> None:
    """A draft needs no other part of an engine than its catalog."""
    engine = Catalog(Column("x", "INTEGER", "integer"), Column("label", "BOOLEAN", "boolean"))
    assert "x:" in drafted(engine, "t")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "label"),
    [("label", "label"), ("class", "class"), ("TARGET", "TARGET"), ("y", '"y"'), ("label, class", "???"), ("q", "???")],
)
def test_label_is_guessed_only_when_plain(columns: str, label: str) -> None:
    """One column with a usual name is taken as the label; none or several leave a placeholder."""
    engine = Catalog(
        Column("a", "BOOLEAN", "boolean"), *(Column(name, "BOOLEAN", "boolean") for name in columns.split(", "))
    )
    lines = [line.partition("  #")[0] for line in drafted(engine, "t").splitlines()]  # type: ignore[arg-type]
    assert f"label: {label}" in lines


def test_label_can_be_named(connection: duckdb.DuckDBPyConnection) -> None:
    """A named label is taken, in any letter case, with the classes the catalog knows."""
    connection.execute("CREATE TABLE t (label BOOLEAN, e ENUM ('no', 'yes'))")
    schema = loads(drafted(adopt(connection), "t", label="E"))
    assert (schema.label, schema.classes) == ("e", ("no", "yes"))


def test_label_without_known_classes_is_a_placeholder(connection: duckdb.DuckDBPyConnection) -> None:
    """Classes that the catalog does not know are left to the owner."""
    connection.execute("CREATE TABLE t (label VARCHAR, f BOOLEAN)")
    with pytest.raises(SchemaError, match="classes is still the placeholder"):
        loads(drafted(adopt(connection), "t"))


def test_unknown_label_is_told(connection: duckdb.DuckDBPyConnection) -> None:
    """A label that is not a column is an UnknownName with the nearest columns."""
    connection.execute("CREATE TABLE t (income VARCHAR)")
    with pytest.raises(UnknownName, match='Did you mean "income"'):
        drafted(adopt(connection), "t", label="incom")


def test_unknown_table_is_told(connection: duckdb.DuckDBPyConnection) -> None:
    """A table that is not there is an UnknownName with the nearest tables."""
    connection.execute("CREATE TABLE people (a INTEGER)")
    with pytest.raises(UnknownName, match='Did you mean "people"'):
        drafted(adopt(connection), "peple")


@pytest.mark.parametrize("kind", ["BLOB", "TIME", "INTEGER[]", "STRUCT(a INTEGER)", "BIT"])
def test_unfit_types_are_listed_in_a_comment(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Columns whose types cannot be features are told in a comment and left out."""
    connection.execute(f"CREATE TABLE t (x {kind}, f BOOLEAN, label BOOLEAN)")
    text = drafted(adopt(connection), "t")
    assert '  # "x": left out, type ' in text
    assert [feature.name for feature in loads(text).features] == ["f"]


@pytest.mark.parametrize(
    ("kind", "declared"),
    [("DATE", "date"), ("TIMESTAMP", "timestamp"), ("TIMESTAMP_NS", "timestamp"), ("TIMESTAMPTZ", "timestamp")],
)
def test_dates_are_drafted_as_numbers(connection: duckdb.DuckDBPyConnection, kind: str, declared: str) -> None:
    """A date or timestamp needs two bounds; that a date can be a category instead is said in a comment."""
    connection.execute(f"CREATE TABLE t (x {kind}, label BOOLEAN)")
    text = drafted(adopt(connection), "t")
    assert f"  x: {{type: {declared}, lower: ???, upper: ???}}" in text
    assert ("type: categorical" in text) == (kind == "DATE")
    filled = loads(text.replace("lower: ???", "lower: 2015-01-01").replace("upper: ???", "upper: 2026-12-31"))
    assert filled.features == (Dated("x", "2015-01-01", "2026-12-31", kind=declared),)


def test_a_date_with_listed_days_is_a_category(connection: duckdb.DuckDBPyConnection) -> None:
    """What a CHECK constraint lists is its domain; a timestamp can be no category, and stays a number."""
    connection.execute("CREATE TABLE t (d DATE CHECK (d IN ('2020-01-01', '2020-01-02')), label BOOLEAN)")
    assert 'values: ["2020-01-01", "2020-01-02"]' in drafted(adopt(connection), "t")
    connection.execute("CREATE TABLE u (d TIMESTAMP CHECK (d IN ('2020-01-01', '2020-01-02')), label BOOLEAN)")
    assert "type: timestamp" in drafted(adopt(connection), "u")


@pytest.mark.parametrize("name", ["id", "ID", "person_id", "patientId", "uuid", "user-key"])
def test_identifiers_are_suggested_as_unit(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """A column named like an identifier is no feature; a comment suggests it as the privacy unit."""
    connection.execute(f'CREATE TABLE t ("{name}" INTEGER, f BOOLEAN, label BOOLEAN)')
    text = drafted(adopt(connection), "t")
    assert f'"{name}": left out, an identifier, by its name' in text
    assert "privacy_unit: row  # if one person can have several rows: {column: " in text
    assert loads(text).feature(name) is None


@pytest.mark.parametrize("name", ["paid", "valid", "humid", "monkey"])
def test_words_that_end_like_identifiers_are_features(name: str) -> None:
    """A word that only ends in the letters of an identifier is a feature like any other."""
    engine = Catalog(Column(name, "BOOLEAN", "boolean"), Column("label", "BOOLEAN", "boolean"))
    assert loads(drafted(engine, "t")).features == (Boolean(name),)  # type: ignore[arg-type]


def test_view_can_be_drafted(connection: duckdb.DuckDBPyConnection) -> None:
    """A view has types but no constraints."""
    connection.execute("CREATE TABLE t (e ENUM ('a', 'b'), label BOOLEAN); CREATE VIEW v AS SELECT * FROM t")
    assert loads(drafted(adopt(connection), "v")).features == (Categorical("e", ("a", "b")),)


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")


@given(st.text(characters, min_size=1, max_size=20), st.lists(st.text(characters), min_size=1, max_size=3, unique=True))
def test_hostile_names_and_values_come_back(name: str, values: list[str]) -> None:
    """No name and no ENUM value can break out of its place in the draft."""
    engine = Catalog(
        Column("f", "BOOLEAN", "boolean"),
        Column(name + "_x", "ENUM", "text", tuple(values)),
        Column("label", "BOOLEAN", "boolean"),
    )
    assert loads(drafted(engine, "t")).features[1] == Categorical(name + "_x", tuple(values))  # type: ignore[arg-type]


@given(st.text(characters, min_size=1, max_size=20))
def test_hostile_names_stay_in_their_comments(name: str) -> None:
    """A name in a comment cannot end the comment."""
    engine = Catalog(
        Column("f", "BOOLEAN", "boolean"),
        Column(name + "_b", "BLOB", "other"),
        Column(name + "_id", "BLOB", "other"),
        Column("label", "BOOLEAN", "boolean"),
    )
    assert loads(drafted(engine, "t")).features == (Boolean("f"),)  # type: ignore[arg-type]


@given(st.text(max_size=40))
def test_any_check_is_survived(check: str) -> None:
    """A constraint that cannot be read says nothing, and the draft is made all the same."""
    engine = Catalog(
        Column("x", "INTEGER", "integer"), Column("label", "BOOLEAN", "boolean"), checks=(check, "x BETWEEN 1 AND 2")
    )
    assert "x:" in drafted(engine, "t")  # type: ignore[arg-type]
