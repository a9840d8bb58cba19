"""Lookups: values that the owner declares public are read once, entered into the ledger, and told by certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.api.database import Database, connect
from dpsql.engines.base import Column
from dpsql.errors import DatabaseReadOnly, ParameterError, UnknownName, UsageError
from dpsql.kernel.datasets.looked_up_columns import LOOKUP
from dpsql.ledger import Ledger
from dpsql.owner.draft_schema import DraftRequest, draft_schema
from dpsql.owner.drafts.proposal import Proposal, from_bounds
from dpsql.schema.schema_file import loads
from tests.servers import OPEN_EMPTY, chdb
from tests.tables import run

TABLE = """
CREATE TABLE t AS SELECT i AS id, i // 3 AS person, 'mail' || i AS email, i % 90 AS age, (1 + i % 2)::TINYINT AS sex,
    ['clerk', 'cook', NULL][1 + i % 3] AS job, 'only ' || i AS hobby, repeat('long', 100) AS story, i / 7.0 AS wage,
    ['no', 'yes'][1 + i % 2] AS y, i % 1500 AS street_number
FROM range(3000) r (i)
"""


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with a private table of 3,000 rows."""
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, TABLE)
        yield opened


def test_values_are_listed_and_the_act_is_an_entry(db: Database) -> None:
    """Texts, integer codes and classes are listed; the ledger says who, what table, which columns, how many values."""
    draft = db.draft("t", label="y", values_are_public=["job", "sex", "Y"])
    features = {proposal.column: proposal.feature for proposal in draft.proposals}
    assert features["job"] == {"type": "categorical", "values": ["clerk", "cook"]}
    assert features["sex"] == {"type": "categorical", "values": [1, 2]}
    assert features["y"] == {"values": ["no", "yes"]}
    [entry] = db.book.entries()
    assert (entry.event, entry.who, entry.table, entry.amount) == (LOOKUP, "ann", "t", 0)
    assert entry.details["columns"] == {"job": 2, "sex": 2, "y": 2}
    assert db.verify() == []
    assert f"looked up by the owner, entry {entry.entry_id}" in draft.text
    assert 'looked_up: [job, sex, "y"]' in draft.text


@pytest.mark.parametrize(
    ("column", "words", "reads"),
    [
        ("id", "looks like an identifier", False), ("email", "looks like an e-mail address", False),
        ("wage", "only texts and", False), ("hobby", "more than 1000 values", True),
        ("street_number", "more than 1000 values", True), ("story", "holds free text", True),
    ],
)  # fmt: skip
def test_what_names_people_is_refused(db: Database, column: str, words: str, reads: bool) -> None:
    """An identifier, free text and too many values are refused, for all columns that were named, without a value."""
    with pytest.raises(UsageError, match=words) as refused:
        db.draft("t", values_are_public=["job", column])
    assert [entry.details["columns"] for entry in db.book.entries()] == ([{"job": None, column: None}] if reads else [])
    for value in ("clerk", "only 7", "longlong", "mail7", "2999", "3000", "1500"):
        assert value not in str(refused.value)


def test_values_of_single_rows_are_refused(db: Database) -> None:
    """A list of values most of which one row alone has is an identifier's, whatever its name."""
    run(db.engine, "CREATE TABLE few (c VARCHAR)", "INSERT INTO few VALUES ('a'), ('a'), ('b'), ('c')")
    with pytest.raises(UsageError, match="stand in one row alone"):
        db.draft("few", values_are_public=["c"])
    run(db.engine, "CREATE TABLE keyed (c INTEGER PRIMARY KEY)")
    with pytest.raises(UsageError, match="looks like an identifier"):
        db.draft("keyed", values_are_public=["c"])
    run(db.engine, "CREATE TABLE empty (c VARCHAR)")
    with pytest.raises(UsageError, match="has no values to list"):
        db.draft("empty", values_are_public=["c"])


def test_mistakes_read_nothing(db: Database) -> None:
    """A column that is not there, and one text in place of a list, are told before any row is read."""
    with pytest.raises(UnknownName, match='Did you mean "job"'):
        db.draft("t", values_are_public=["jobb"])
    with pytest.raises(ParameterError, match="a list of columns"):
        db.draft("t", values_are_public="job")
    assert db.book.entries() == []


def test_a_mistake_elsewhere_looks_nothing_up(db: Database, tmp_path: Path) -> None:
    """A code book, a sample or a code table that is refused is told before any row is read or entered."""
    for wrong in ({"dictionary": tmp_path / "none.csv"}, {"like": "t"}, {"public_tables": ["t"]}, {"label": "z"}):
        with pytest.raises(UsageError):
            db.draft("t", values_are_public=["job"], **wrong)  # type: ignore[arg-type]
    assert db.book.entries() == []


def test_sources_of_others_come_before_the_gaps(db: Database) -> None:
    """A further source fills what is open, and is not asked to overrule what is known."""

    def bought(column: Column) -> Proposal | None:
        return from_bounds(column, -8, 8, "bought, entry 3")

    draft = draft_schema(db.engine, db.book, "t", more_sources=[bought])
    origins = {proposal.column: proposal.origin for proposal in draft.proposals}
    assert origins["wage"] == "bought, entry 3"
    assert origins["id"] != "bought, entry 3"


def test_a_certificate_says_so(db: Database) -> None:
    """A model of the table names the columns: in its certificate, its JSON, and its explanation."""
    draft = db.draft("t", label="y", values_are_public=["job", "y"])
    db.register("t", _filled(draft.text), cap=5)
    model = db.train("t", epsilon=1, method="rdt", trees=2, depth=2)
    assert model.certificate["looked_up"] == ["job", "y"]
    assert json.loads(model.to_json())["certificate"]["looked_up"] == ["job", "y"]
    assert model.schema.looked_up == ("job", "y")
    assert "looked up in the private rows by the owner, outside the guarantee" in " ".join(str(model.explain()).split())
    assert "outside the guarantee" in str(model.explain().to_dict()["looked_up"])
    assert db.model(model.name).certificate["looked_up"] == ["job", "y"]


def test_a_model_without_lookups_says_nothing(db: Database) -> None:
    """A certificate of a table whose values were declared has no such entry."""
    db.register("t", _declared(), cap=5)
    model = db.train("t", epsilon=1, method="rdt", trees=2, depth=2)
    assert "looked_up" not in model.certificate
    assert "Domains" not in str(model.explain())


def test_the_ledger_of_a_table_lists_its_lookups(db: Database) -> None:
    """`db.ledger(table)` shows the lookup before the registration that used it."""
    db.draft("t", values_are_public=["job"])
    db.register("t", _declared(), cap=5)
    assert list(db.ledger("t")["event"]) == ["lookup", "register"]
    assert db.budget("t").spent_text == "0"


def test_a_read_only_file_is_not_looked_up(tmp_path: Path) -> None:
    """Where the act cannot be entered, no row is read."""
    path = tmp_path / "data.duckdb"
    with connect(path, create=True) as opened:
        run(opened.engine, TABLE)
    with connect(path, read_only=True) as opened, pytest.raises(DatabaseReadOnly):
        opened.draft("t", values_are_public=["job"])


@pytest.mark.parametrize("name", sorted(OPEN_EMPTY))
def test_every_engine_looks_values_up(name: str) -> None:
    """The same list comes from each engine, and the table can be registered afterwards."""
    engine = OPEN_EMPTY[name]()
    try:
        _fill(engine, name)
        ledger = Ledger(engine)
        draft = draft_schema(engine, ledger, "seen", DraftRequest("y", values_are_public=["job", "code", "y"]), who="a")
        schema = loads(draft.text)
        assert schema.feature("job").values == ("clerk", "cook")  # type: ignore[union-attr]
        assert schema.feature("code").values == ("9", "10")  # type: ignore[union-attr]
        assert schema.classes == ("no", "yes")
        with Database(engine, who="a") as db:
            db.register("seen", schema, cap=1)
            assert db.train("seen", epsilon=1, method="rdt", trees=2, depth=1).certificate["looked_up"] == [
                "code", "job", "y",
            ]  # fmt: skip
    finally:
        if name == "spark":
            engine.session.sql("DROP TABLE IF EXISTS seen")  # type: ignore[attr-defined]
        engine.close()


def _fill(engine: object, name: str) -> None:
    """Make a table of twelve rows."""
    rows = [("clerk" if i % 2 else "cook", 9 + i % 2, "no" if i % 3 else "yes") for i in range(12)]
    values = ", ".join(f"('{job}', {code}, '{y}')" for job, code, y in rows)
    if name == "spark":
        session = engine.session  # type: ignore[attr-defined]
        session.sql("DROP TABLE IF EXISTS seen")
        session.sql("CREATE TABLE seen (job STRING, code INT, y STRING) USING parquet")
        session.sql(f"INSERT INTO seen VALUES {values}")
    elif name == "chdb":
        chdb().query("DROP TABLE IF EXISTS default.seen")
        chdb().query("CREATE TABLE default.seen (job Nullable(String), code Int32, y String) ENGINE = Memory")
        chdb().query(f"INSERT INTO default.seen VALUES {values}")
    else:
        home = engine.home  # type: ignore[attr-defined]
        run(engine, f"CREATE TABLE {home}.seen (job TEXT, code INTEGER, y TEXT)")  # type: ignore[arg-type]
        run(engine, f"INSERT INTO {home}.seen VALUES {values}")  # type: ignore[arg-type]


def _filled(text: str) -> dict[str, object]:
    """Return a small schema with what a draft lists, and nothing that has gaps."""
    assert "looked_up:" in text
    return {"looked_up": ["job"], **_declared()}


def _declared() -> dict[str, object]:
    return {
        "label": "y",
        "classes": ["no", "yes"],
        "features": {
            "job": {"type": "categorical", "values": ["clerk", "cook"]},
            "age": {"type": "numeric", "lower": 0, "upper": 90},
        },
    }
