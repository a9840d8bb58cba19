"""Proposals from the catalog: keys, code tables, comments, identifiers by name; and which source wins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.engines.base import Column, ColumnNote, Engine, TableInfo
from dpsql.errors import BudgetError, UnknownName, UsageError
from dpsql.ledger import Ledger
from dpsql.owner.draft_schema import DraftRequest, draft_schema
from dpsql.owner.drafts.identifier_names import why_identifier
from dpsql.owner.drafts.proposal import FEATURE, GAP, IDENTIFIER, LEFT_OUT, UNIT, Proposal, first_proposal
from dpsql.schema import Boolean
from dpsql.schema.schema_file import loads
from tests.servers import OPEN_EMPTY, chdb
from tests.tables import run


@pytest.fixture
def db() -> Iterator[Database]:
    """Open an empty database."""
    with connect(":memory:", who="ann") as opened:
        yield opened


def proposal(db: Database, column: str, **request: object) -> Proposal:
    """Return what the draft of table t proposes for a column."""
    return next(given for given in db.draft("t", **request).proposals if given.column == column)  # type: ignore[arg-type]


class CatalogAlone:
    """An engine with a table of two columns, one of them with notes, and nothing else."""

    dialect, path = "duckdb", None

    def __init__(self, column: Column, note: ColumnNote) -> None:
        self.info = TableInfo("t", "main", "t", (column, Column("label", "BOOLEAN", "boolean")), "table")
        self.note = note

    def table(self, name: str) -> TableInfo:
        """Return the only table."""
        return self.info

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return the notes on its first column."""
        return {info.columns[0].name: self.note}


def test_keys_are_left_out_whatever_else_is_known(db: Database) -> None:
    """A primary key and a unique column are no features, even with bounds; a key of two columns says nothing."""
    run(db.engine, "CREATE TABLE t (a INTEGER PRIMARY KEY CHECK (a BETWEEN 1 AND 9), b INTEGER UNIQUE, "
        "c BOOLEAN, d BOOLEAN, UNIQUE (c, d))")  # fmt: skip
    assert proposal(db, "a").role == proposal(db, "b").role == IDENTIFIER
    assert "key" in proposal(db, "a").origin
    assert proposal(db, "c").role == FEATURE


@pytest.mark.parametrize(
    ("name", "family", "kind"),
    [
        ("email", "text", "e-mail"), ("E-Mail", "text", "e-mail"), ("patient_name", "text", "name"),
        ("Name", "text", "name"), ("zip", "integer", "zip"), ("postal_code", "text", "zip"),
        ("phoneNumber", "text", "phone"), ("tel_nr", "text", "phone"), ("national_no", "integer", "identifier"),
        ("home_address", "text", "address"), ("remarks", "text", "free text"),
        ("SSN", "text", "identifier"), ("account_no", "integer", "identifier"), ("order_id", "integer", "identifier"),
    ],
)  # fmt: skip
def test_names_of_identifiers_are_known(name: str, family: str, kind: str) -> None:
    """Names, addresses, numbers of people and free text are recognised by the column's name."""
    assert kind in (why_identifier(Column(name, "T", family)) or "")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("email", "boolean"), ("country_name", "text"), ("city", "text"), ("contact", "text"), ("phone", "boolean"),
        ("paid", "integer"), ("number", "integer"), ("text_length", "integer"), ("address", "integer"), ("", "text"),
    ],
)  # fmt: skip
def test_other_names_are_features(name: str, family: str) -> None:
    """A word inside a name, or a type that it does not fit, tells nothing."""
    assert why_identifier(Column(name, "T", family)) is None


def test_the_unit_is_a_person_before_anything_else(db: Database) -> None:
    """Of several identifiers the one that names people is proposed; a unique key never is."""
    run(db.engine, "CREATE TABLE t (id INTEGER PRIMARY KEY, visit_id INTEGER, patient_id INTEGER, email VARCHAR)")
    roles = {given.column: given.role for given in db.draft("t").proposals}
    assert roles == {"id": IDENTIFIER, "visit_id": IDENTIFIER, "patient_id": UNIT, "email": IDENTIFIER}
    assert "{column: patient_id, max_rows: 10}" in db.draft("t").text


def test_a_code_table_is_read_only_where_its_owner_says(db: Database) -> None:
    """Without --public-table the draft says how to declare it; with it the values are listed, numbers by size."""
    run(db.engine, "CREATE TABLE codes (code INTEGER PRIMARY KEY)", "INSERT INTO codes VALUES (10), (9), (1)")
    run(db.engine, "CREATE TABLE t (ward INTEGER REFERENCES codes (code), f BOOLEAN)")
    closed = proposal(db, "ward")
    assert closed.gaps == ("values",)
    assert "--public-table codes" in closed.advice
    assert proposal(db, "ward", public_tables=["codes"]).feature["values"] == [1, 9, 10]
    with pytest.raises(UnknownName, match="codes"):
        db.draft("t", public_tables=["code"])


def test_an_identifier_that_leads_to_a_code_table_is_one_until_declared(db: Database) -> None:
    """`sex_id` may be a person's or a code: the draft leaves it out and says what would make it a feature."""
    run(db.engine, "CREATE TABLE sexes (id INTEGER PRIMARY KEY)", "INSERT INTO sexes VALUES (1), (2)")
    run(db.engine, "CREATE TABLE t (sex_id INTEGER REFERENCES sexes (id), f BOOLEAN)")
    assert proposal(db, "sex_id").role == UNIT
    assert "--public-table sexes" in db.draft("t").text
    assert proposal(db, "sex_id", public_tables=["sexes"]).feature == {"type": "categorical", "values": [1, 2]}


def test_the_table_itself_is_no_public_code_table(db: Database) -> None:
    """A foreign key into the same table would list private rows: it is refused, and so is a registered table."""
    run(db.engine, "CREATE TABLE t (code INTEGER PRIMARY KEY, boss INTEGER REFERENCES t (code), f BOOLEAN)")
    run(db.engine, "INSERT INTO t VALUES (4711, NULL, true)")
    with pytest.raises(UsageError, match='holds rows of the private table "t"') as refused:
        db.draft("t", public_tables=["t"])
    assert "4711" not in str(refused.value)
    run(db.engine, "CREATE TABLE u (code INTEGER, f BOOLEAN)", "CREATE VIEW v AS SELECT code FROM t")
    with pytest.raises(UsageError, match="holds rows"):
        db.draft("t", public_tables=["v"])
    db.register("t", {"label": "f", "classes": ["false", "true"], "features": {"boss": _BOUNDS}}, cap=1)
    with pytest.raises(BudgetError, match="registered private table"):
        db.draft("u", public_tables=["t"])


_BOUNDS = {"type": "numeric", "lower": 0, "upper": 9}


@pytest.mark.parametrize(
    ("kind", "comment", "feature"),
    [
        ("INTEGER", "0..110", {"type": "numeric", "lower": 0, "upper": 110}),
        ("DOUBLE", "weight in kg: 0.5 to 250", {"type": "numeric", "lower": 0.5, "upper": 250}),
        ("VARCHAR", "one of: a, b, c", {"type": "categorical", "values": ["a", "b", "c"]}),
        ("INTEGER", "1 = male, 2 = female", {"type": "categorical", "values": [1, 2]}),
        ("VARCHAR", "m: male; f: female", {"type": "categorical", "values": ["m", "f"]}),
    ],
)
def test_comments_say_domains(db: Database, kind: str, comment: str, feature: dict[str, object]) -> None:
    """Simple forms are read, and the comment is shown as the origin."""
    run(db.engine, f"CREATE TABLE t (x {kind}, f BOOLEAN)", f"COMMENT ON COLUMN t.x IS '{comment}'")
    read = proposal(db, "x")
    assert read.feature == feature
    assert comment in read.origin


@pytest.mark.parametrize("comment", ["9..1", "see pages 3-4 of the book", "a, b", "1 = one", "one of: it", "=,=", "…"])
def test_other_comments_are_shown(db: Database, comment: str) -> None:
    """What is no plain list and no plain range is left to the owner, who sees the comment."""
    run(db.engine, "CREATE TABLE t (x INTEGER, f BOOLEAN)", f"COMMENT ON COLUMN t.x IS '{comment}'")
    read = proposal(db, "x")
    assert read.gaps == ("lower", "upper")
    assert comment in db.draft("t").text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60), st.booleans())
def test_no_comment_breaks_out_of_its_line(comment: str, key: bool) -> None:
    """Whatever people write about a column, newlines included, the draft has the same keys and values."""
    column = Column("x", "VARCHAR", "text", ("a", "b"))
    note = ColumnNote(comment=comment + "\nfeatures: {evil: {type: boolean}}", unique=key)
    engine: Engine = CatalogAlone(column, note)  # type: ignore[assignment]
    schema = draft_schema(engine, Ledger(engine), "t")
    lines = schema.text.splitlines()
    assert len(lines) == 7 + 1
    if not key:
        assert [feature.name for feature in loads(schema.text).features] == ["x"]


@given(st.text(max_size=80))
def test_any_comment_is_survived(comment: str) -> None:
    """A comment is read or shown; it never fails."""
    engine: Engine = CatalogAlone(Column("x", "DOUBLE", "real"), ColumnNote(comment=comment))  # type: ignore[assignment]
    assert draft_schema(engine, Ledger(engine), "t").proposals[1].feature["values"] == ["false", "true"]


def test_sources_in_order() -> None:
    """The first whole proposal wins, a part before nothing, and nothing is None."""
    column = Column("x", "INTEGER", "integer")
    whole = Proposal("x", FEATURE, {"type": "boolean"}, origin="second")
    part = Proposal("x", FEATURE, {"type": "numeric", "lower": 0, "upper": GAP}, origin="first")
    assert first_proposal([lambda _: None, lambda _: part, lambda _: whole], column) is whole
    assert first_proposal([lambda _: part, lambda _: None], column) is part
    assert first_proposal([lambda _: None], column) is None


def test_codes_and_texts_have_alternatives(db: Database) -> None:
    """Integers that look like codes can be categories, texts hashed; both stand behind the line."""
    run(db.engine, "CREATE TABLE t (education BIGINT, small TINYINT, balance BIGINT, job VARCHAR, f BOOLEAN)")
    lines = {line.split(":")[0].strip(): line for line in db.draft("t", label="f").text.splitlines()}
    assert "or: {type: categorical, values: [1, 2, 3]}" in lines["education"]
    assert "or: {type: categorical" in lines["small"]
    assert "or:" not in lines["balance"]
    assert (
        lines["job"]
        == "  job: {type: categorical, values: ???}  # list the public values; or: {type: hashed, cells: 63}"
    )


def test_dates_are_drafted_with_gaps(db: Database) -> None:
    """Dates and timestamps have bounds; other times are left out."""
    run(db.engine, "CREATE TABLE t (d DATE, s TIMESTAMP, o TIME, f BOOLEAN)")
    text = db.draft("t", label="f").text
    assert "  d: {type: date, lower: ???, upper: ???}" in text
    assert "  s: {type: timestamp, lower: ???, upper: ???}" in text
    assert proposal(db, "o").role == LEFT_OUT


def test_the_label_is_no_feature_and_asked_for_once(db: Database) -> None:
    """With a label there is no line for it among the features; without, one line asks."""
    run(db.engine, "CREATE TABLE t (a BOOLEAN, b BOOLEAN)")
    assert loads(db.draft("t", label="a").text).features == (Boolean("b"),)
    asked = [line for line in db.draft("t").text.splitlines() if line.startswith("label: ???")]
    assert len(asked) == 1
    assert '"a", "b"' in asked[0]


def test_csv_files_have_one_line_for_each_column(tmp_path: Path) -> None:
    """A draft of 14 columns without types has 14 lines and a head, not four lines of comment each."""
    names = [f"c{number}" for number in range(14)]
    (tmp_path / "people.csv").write_text(",".join(names) + "\n" + ",".join("1" * 14) + "\n")
    with connect(tmp_path) as files:
        text = files.draft("people", label="c0").text
    assert len(text.splitlines()) == 3 + 3 + 1 + 13
    assert "  c1: ???  # its file gives no type" in text


@pytest.mark.parametrize("name", sorted(OPEN_EMPTY))
def test_every_engine_tells_comments(name: str) -> None:
    """A column's comment is found on each engine; PostgreSQL and DuckDB tell keys too."""
    engine = OPEN_EMPTY[name]()
    try:
        _make_commented(engine, name)
        info = engine.table("noted")
        assert info is not None
        notes = engine.column_notes(info)
        assert notes["x"].comment == "0..110"
        keys = {column for column, note in notes.items() if note.unique}
        assert keys == ({"k"} if name in ("duckdb", "postgres") else set())
        if keys:
            assert notes["c"].references == (info.schema, "codes", "code")
        drafted = draft_schema(engine, Ledger(engine), "noted")
        assert drafted.proposals[0].feature == {"type": "numeric", "lower": 0, "upper": 110}
    finally:
        _drop_commented(engine, name)
        engine.close()


def _make_commented(engine: Engine, name: str) -> None:
    """Make a table with a comment on column x, and keys where the database has them."""
    if name == "spark":
        session = engine.session  # type: ignore[attr-defined]
        session.sql("DROP TABLE IF EXISTS noted")
        session.sql("CREATE TABLE noted (x INT COMMENT '0..110', k INT) USING parquet")
    elif name == "chdb":
        chdb().query("DROP TABLE IF EXISTS default.noted")
        chdb().query("CREATE TABLE default.noted (x Int32 COMMENT '0..110', k Int32) ENGINE = Memory")
    else:
        home = engine.home
        run(engine, f"CREATE TABLE {home}.codes (code INTEGER PRIMARY KEY)")
        columns = f"x INTEGER, k INTEGER PRIMARY KEY, c INTEGER REFERENCES {home}.codes (code)"
        run(engine, f"CREATE TABLE {home}.noted ({columns})", f"COMMENT ON COLUMN {home}.noted.x IS '0..110'")


def _drop_commented(engine: Engine, name: str) -> None:
    """Leave nothing behind in a database that other tests use too."""
    if name == "spark":
        engine.session.sql("DROP TABLE IF EXISTS noted")  # type: ignore[attr-defined]
    elif name == "chdb":
        chdb().query("DROP TABLE IF EXISTS default.noted")


def test_request_is_a_value() -> None:
    """A draft needs no request: then the catalog alone is asked."""
    assert DraftRequest() == DraftRequest(None, None, None, (), ())
