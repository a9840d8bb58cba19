"""Parquet and CSV files as a database: all methods, one budget, no charge for what is not there, no cell shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.api.database import Database, connect
from dpsql.api.shell import Shell
from dpsql.compile.rows import Tickets, pack_rows
from dpsql.errors import BudgetError, DatabaseError, DpsqlError, ParameterError, SchemaError, TableChanged
from dpsql.kernel.datasets.dataset import find_dataset, source
from dpsql.schema import Boolean, Numeric, Schema
from tests import tables
from tests.engines.folder import csv, parquet

#: Texts of a number's cell, and what a DOUBLE column would hold in their place.
CELLS: dict[str, float | None] = {
    "3": 3.0, " 3.5 ": 3.5, "-0": 0.0, "1e2": 100.0, "nan": float("nan"), "inf": float("inf"), "": None,
    "three": None, "3,5": None, "0x10": None, "🌲": None, "1e400": float("inf"), "2024-01-01": None, "'": None,
    "63.9": 63.9,
}  # fmt: skip


def cells(values: tuple[Any, ...]) -> str:
    """Return values as a line of CSV."""
    return ",".join("" if value is None else '"' + str(value).replace('"', '""') + '"' for value in values)


def people(folder: Path, rows: list[tables.Row], kind: str = "csv", types: dict[str, str] | None = None) -> Path:
    """Write the rows of `tests.tables` as a file of that kind, or as a partitioned table."""
    if kind == "csv":
        text = "\n".join([",".join(tables.TYPES), *(cells(row) for row in rows)])
        return csv(folder / "people.csv", text + "\n")
    made = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in (types or tables.TYPES).items())
    values = ", ".join("(" + ", ".join(_literal(value) for value in row) + ")" for row in rows)
    query = f"SELECT {made} FROM (VALUES {values}) AS v({', '.join(tables.TYPES)})"
    if kind == "parquet":
        return parquet(folder / "people.parquet", query)
    parquet(folder / "people" / "part=a" / "1.parquet", query + " LIMIT 20")
    return parquet(folder / "people" / "part=b" / "2.parquet", query + " OFFSET 20")


def _literal(value: object) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def opened(target: Path, **options: Any) -> Database:
    """Open files as "ann"."""
    return connect(target, who="ann", **options)


def registered(folder: Path, kind: str = "csv", schema: Schema = tables.SCHEMA) -> Database:
    """Write a table of people, open its folder and register it with a cap of 10."""
    people(folder, tables.some_rows(), kind)
    db = opened(folder)
    db.register("people", schema, cap=10)
    return db


KINDS = pytest.mark.parametrize("kind", ["csv", "parquet", "parts"])


@pytest.mark.parametrize("way", tables.WAYS)
@pytest.mark.parametrize("kind", ["csv", "parts"])
def test_every_method_trains_and_predicts(tmp_path: Path, way: str, kind: str) -> None:
    """From files, into a model that scores other files; what it costs is in the ledger beside them."""
    run = tables.fitted(way)
    db = registered(tmp_path, kind, run.schema)
    if run.kind != "pure":
        db.set_cap("people", 10, kind=run.kind)
    db.close()
    csv(tmp_path / "fresh.csv", "id,x,c\n1,3,a\n2,,\n3,none,q\n")
    db = opened(tmp_path)
    model = db.train("people", epsilon=1, name="m", **run.asked)
    assert len(model.predict("fresh", key="id")) == 3
    assert (db.budget("people", run.kind).spent_text, db.verify()) == ("1", [])
    db.close()


@KINDS
def test_rows_are_the_same_as_in_a_table(tmp_path: Path, kind: str) -> None:
    """Each row has the class and the cells that it has in a table of the database."""
    files, inside = registered(tmp_path, kind), tables.memory(tables.some_rows())
    assert packed_rows(files) == packed_rows(inside)
    files.close()
    inside.close()


def packed_rows(db: Database) -> list[tuple[int, ...]]:
    """Return class and words of each row that counts, in order."""
    rows = source(db.engine, find_dataset(db.engine, db.book, "people"))
    words = pack_rows(rows, db.engine.vocabulary, Tickets((1, 2))).subquery("packed")
    with db.engine.workspace() as here:
        found = here.aggregate(exp.select("class", "word_0").from_(words), {})
    return sorted(zip(found["class"].tolist(), found["word_0"].tolist(), strict=True))


def test_a_cell_that_is_no_number_goes_where_null_goes(tmp_path: Path) -> None:
    """Every text has a cell, the one that the number it holds would have, or NULL's."""
    typed = tables.memory([(1, value, "a", "yes") for value in CELLS.values()])
    people(tmp_path, [(1, text, "a", "yes") for text in CELLS])  # type: ignore[misc]
    files = opened(tmp_path)
    files.register("people", tables.SCHEMA, cap=1)
    assert packed_rows(files) == packed_rows(typed)
    files.close()
    typed.close()


def test_a_number_is_predicted_from_csv(tmp_path: Path) -> None:
    """A numeric target is read from text too, for training and for evaluation."""
    people(tmp_path, [*tables.some_targets(), (1, 2.0, "a", "oops")])
    csv(tmp_path / "fresh.csv", "x,c,y\n1,a,2\n2,b,oops\n3,a,4\n")
    db = opened(tmp_path)
    db.register("people", tables.TARGET, cap=10)
    db.train("people", epsilon=1, name="m", **tables.SMALL)
    assert db.evaluate("m", "fresh").rows == 2
    db.close()


def test_true_and_false_are_read_from_csv(tmp_path: Path) -> None:
    """A boolean feature is what its text says."""
    schema = Schema("y", ("no", "yes"), (Boolean("b"), Numeric("x", 0, 64)))
    csv(tmp_path / "people.csv", "b,x,y\nTrue,1,no\nfalse,1,no\nperhaps,1,no\n,1,no\n")
    inside = connect(":memory:")
    tables.fill(inside.engine, "people", [(value, 1, "no") for value in (True, False, None, None)],  # type: ignore[misc]
                {"b": "BOOLEAN", "x": "DOUBLE", "y": "VARCHAR"})  # fmt: skip
    files = opened(tmp_path)
    for db in (files, inside):
        db.register("people", schema, cap=1)
    assert packed_rows(files) == packed_rows(inside)
    files.close()
    inside.close()


def test_a_person_is_a_column_of_csv(tmp_path: Path) -> None:
    """Units are told apart by their text, and at most three rows of each count."""
    people(tmp_path, [(1, float(x), "a", "yes") for x in range(9)] + [(2, 1.0, "b", "no")])
    db = opened(tmp_path)
    db.register("people", tables.UNITS, cap=1)
    assert len(packed_rows(db)) == 4
    db.close()


def test_a_condition_on_a_number_of_csv(tmp_path: Path) -> None:
    """Unlabelled rows are told by a condition on a feature, which is a number there; other columns are text."""
    db = registered(tmp_path)
    db.train("people", epsilon=1, method="sspe", unlabelled="x < 9", **tables.SMALL)
    with pytest.raises(DpsqlError, match="it holds texts"):
        db.train("people", epsilon=1, method="sspe", unlabelled="c < 9", **tables.SMALL)
    db.close()


@KINDS
def test_one_class_and_no_rows(tmp_path: Path, kind: str) -> None:
    """A table of one class trains, and so does an empty one."""
    people(tmp_path, [(1, 1.0, "a", "yes")] * 30, kind)
    csv(tmp_path / "none.csv", "person,x,c,y\n")
    db = opened(tmp_path)
    for name in ("people", "none"):
        db.register(name, tables.SCHEMA, cap=1)
        db.train(name, epsilon=1, **tables.SMALL)
    db.close()


def test_a_draft_says_what_the_header_says(tmp_path: Path) -> None:
    """Names from the header, nothing from rows; what CSV cannot tell is left to the owner."""
    people(tmp_path, tables.some_rows())
    db = opened(tmp_path)
    text = db.draft("people", label="y").text
    db.close()
    assert "  x: ???  # its file gives no type" in text
    assert not any(word in text for word in ("maybe", "unknown label"))
    csv(tmp_path / "people.csv", "person,x,c,y\n")
    again = opened(tmp_path)
    assert again.draft("people", label="y").text == text
    again.close()


def test_a_file_and_its_folder_share_a_budget(tmp_path: Path) -> None:
    """What was spent on the folder's table is spent on the file."""
    db = registered(tmp_path)
    db.train("people", epsilon=4, **tables.SMALL)
    db.close()
    alone = opened(tmp_path / "people.csv")
    alone.train("people", epsilon=4, **tables.SMALL)
    assert alone.budget("people").left_text == "2"
    with pytest.raises(BudgetError):
        alone.train("people", epsilon=4, **tables.SMALL)
    alone.close()


@KINDS
def test_a_file_that_vanished_charges_nothing(tmp_path: Path, kind: str) -> None:
    """Before the run or before the folder is opened again, a clear error says so."""
    db = registered(tmp_path, kind)
    before = tables.stored(db)
    for path in [*tmp_path.glob("people.*"), *tmp_path.glob("people/*/*")]:
        path.unlink()
    with pytest.raises(TableChanged, match="no longer there"):
        db.train("people", epsilon=1, **tables.SMALL)
    assert tables.stored(db) == before
    db.close()
    again = opened(tmp_path)
    with pytest.raises(TableChanged, match="no longer there"):
        again.train("people", epsilon=1, **tables.SMALL)
    assert tables.stored(again) == before
    again.close()


def test_a_file_with_other_columns_charges_nothing(tmp_path: Path) -> None:
    """A lost column of CSV and another type of Parquet are told by name."""
    registered(tmp_path / "one").close()
    csv(tmp_path / "one" / "people.csv", "person,c,y\n")
    registered(tmp_path / "two", "parquet").close()
    people(tmp_path / "two", tables.some_rows(), "parquet", {**tables.TYPES, "x": "VARCHAR"})
    for place, words in (("one", 'lost its column "x"'), ("two", '"x" of "people" was DOUBLE')):
        db = opened(tmp_path / place)
        before = tables.stored(db)
        with pytest.raises(TableChanged, match=words):
            db.train("people", epsilon=1, **tables.SMALL)
        assert tables.stored(db) == before
        db.close()


def test_a_file_with_other_rows_is_trained_on(tmp_path: Path) -> None:
    """Rows may come and go between openings: the charge is on the table."""
    registered(tmp_path).close()
    people(tmp_path, tables.some_rows(400))
    db = opened(tmp_path)
    db.train("people", epsilon=1, **tables.SMALL)
    db.close()


def test_a_broken_file_is_refused_and_keeps_its_words(tmp_path: Path) -> None:
    """A Parquet file broken behind its footer cannot be registered: nothing is charged, and no cell is quoted."""
    path = people(tmp_path, tables.some_rows(4000), "parquet")
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:4] + b"\xff" * (footer - 4) + whole[footer:])
    db = opened(tmp_path)
    with pytest.raises(DatabaseError, match="cannot be read") as raised:
        db.register("people", tables.SCHEMA, cap=10)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert db.book.entries() == []
    db.close()


@KINDS
def test_a_registered_file_is_not_read_for_free(tmp_path: Path, kind: str) -> None:
    """Neither by name nor through a view on it."""
    db = registered(tmp_path, kind)
    model = db.train("people", epsilon=1, **tables.SMALL)
    tables.run(db.engine, "CREATE VIEW peek AS SELECT * FROM people")
    for name in ("people", "PEOPLE", "peek"):
        with pytest.raises(BudgetError, match="cannot be read for free"):
            model.predict(name)
    db.close()


def test_a_view_on_a_file_is_registered_as_its_file(tmp_path: Path) -> None:
    """Row-to-row on the file: it trains, with numbers by TRY_CAST, and the file has no second budget."""
    people(tmp_path, tables.some_rows())
    db = opened(tmp_path)
    tables.run(db.engine, "CREATE VIEW grown AS SELECT TRY_CAST(x AS DOUBLE) AS x, c, y FROM people WHERE c <> 'b'")
    db.register("grown", tables.SCHEMA, cap=2)
    db.train("grown", epsilon=1, **tables.SMALL)
    with pytest.raises(DpsqlError, match="already registered|has rows of"):
        db.register("people", tables.SCHEMA, cap=2)
    tables.run(db.engine, "CREATE VIEW twice AS SELECT a.* FROM people a JOIN people b USING (person)")
    with pytest.raises(SchemaError):
        db.register("twice", tables.SCHEMA, cap=2)
    db.close()


def test_sql_calls_work_on_files(tmp_path: Path) -> None:
    """The shell trains on a file and scores another."""
    registered(tmp_path).close()
    csv(tmp_path / "fresh.csv", "id,x,c\n1,3,a\n2,,b\n")
    with Shell(opened(tmp_path)) as shell:
        text = "FROM dpsql_train('people', epsilon := 1.0, name := 'm', trees := 3, depth := 2, method := 'rosnam')"
        [trained] = shell.run(text)
        assert (trained.error, trained.rows[0][0]) == (None, "m")
        [scored] = shell.run("SELECT COUNT(*) FROM dpsql_score('m', 'fresh')")
        assert (scored.error, scored.rows) == (None, [(2,)])
        [shown] = shell.run("SELECT COUNT(*), MAX(x) FROM fresh")
        assert shown.rows == [(2, "3")]


def test_scored_rows_are_kept_in_the_ledgers_database(tmp_path: Path) -> None:
    """`into` makes a table beside the ledger; the files stay as they are."""
    db = registered(tmp_path)
    model = db.train("people", epsilon=1, **tables.SMALL)
    db.close()
    fresh = csv(tmp_path / "fresh.csv", "id,x,c\n1,3,a\n2,oops,b\n")
    before = fresh.read_bytes()
    db = opened(tmp_path)
    db.model(model.name).predict("fresh", into="scored")
    frame = db.engine.frame(sqlglot.parse_one("SELECT * FROM main.scored ORDER BY id", dialect="duckdb"))
    assert list(frame.columns) == ["id", "x", "c", "prediction"]
    assert (frame["x"].tolist(), fresh.read_bytes()) == (["3", "oops"], before)
    db.close()


def test_a_restored_ledger_is_noticed(tmp_path: Path) -> None:
    """The receipt lies beside the ledger of files too."""
    db = registered(tmp_path)
    db.close()
    place = tmp_path / "dpsql_ledger.duckdb"
    old = place.read_bytes()
    db = opened(tmp_path)
    db.train("people", epsilon=1, **tables.SMALL)
    db.close()
    place.write_bytes(old)
    db = opened(tmp_path)
    with pytest.raises(BudgetError, match="an old copy"):
        db.train("people", epsilon=1, **tables.SMALL)
    db.close()


def test_a_connection_of_your_own_takes_no_ledger(tmp_path: Path) -> None:
    """It has one."""
    with duckdb.connect() as connection, pytest.raises(ParameterError, match="ledger must be given only for files"):
        connect(connection, ledger=tmp_path / "other.duckdb")


def test_a_target_that_is_nothing(tmp_path: Path) -> None:
    """No such file is a clear error."""
    with pytest.raises(DatabaseError, match="there is no file"):
        opened(tmp_path / "gone.parquet")
