"""Hostile names and values pass through command line, Python and SQL: no injection, no traceback, a sound ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from sqlglot import exp

import dpsql
from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line
from dpsql.errors import ParameterError
from dpsql.schema import Categorical, Feature, Numeric, Schema, schema_file
from tests import tables
from tests.hostile import HOSTILE
from tests.tables import quote

#: A model's name has at most 200 characters, and is not blank.
MODELS = [name for name in HOSTILE if name.strip() and len(name) <= 200]
PLAIN = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b"))))
#: Taken one by one: a third of a quarter each. `test_columns_classes_and_categories` takes them by the hundred.
BY_COMMAND, BY_SQL, BY_PYTHON = HOSTILE[0::12], HOSTILE[4::12], HOSTILE[8::12]
#: Every other name as a column: 200 of them. As classes and categories all names are taken.
COLUMNS = HOSTILE[1::2]
KEPT = ["analyst_budget", "budget", "chain", "entry", "format", "ledger", "model", "model_leaf", "model_node",
        "scope_budget"]  # fmt: skip
Calls = Callable[[Path], None]


def intact(db: Database) -> bool:
    """Whether the canary lives, dpsql's own tables are all there, and the ledger is sound."""
    canary = tables.rows_of(db.engine, "SELECT secret FROM canary")
    own = tables.rows_of(
        db.engine, "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'dpsql' ORDER BY ALL"
    )
    kept = [row["name"] for row in own if row["name"] != "size"]  # the table of sizes is there once one was bought
    return canary == [{"secret": "alive"}] and kept == KEPT and db.verify() == []


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """Open a file with a canary, a registered table "people", public rows "fresh" and a model "m"."""
    opened = connect(tmp_path / "data.duckdb", create=True, who="ann")
    tables.run(opened.engine, "CREATE TABLE canary AS SELECT 'alive' AS secret")
    for name in ("people", "fresh"):
        tables.fill(opened.engine, name, tables.some_rows(6))
    opened.register("people", PLAIN, cap=1000)
    opened.train("people", name="m", method="rosnam", trees=1, depth=1)
    yield opened
    opened.close()


def stock(db: Database, names: list[str]) -> None:
    """Add a copy of the table "fresh" and of the model "m" under each name."""
    with db.engine.transaction() as transaction:
        for number, name in enumerate(names, 100):
            transaction.run(f"CREATE TABLE {quote(name)} AS SELECT x, c, ? AS named FROM fresh", [name])
            transaction.run(
                "INSERT INTO dpsql.model SELECT * REPLACE (? AS model_id, ? AS name) FROM dpsql.model WHERE name = 'm'",
                [number, name],
            )
            for part in ("model_node", "model_leaf"):
                copied = f"SELECT * REPLACE (? AS model_id) FROM dpsql.{part} WHERE model_id = 1"
                transaction.run(f"INSERT INTO dpsql.{part} {copied}", [number])


def wide_schema() -> Schema:
    """Return a schema whose columns, classes and category values are all hostile."""
    features: list[Feature] = [
        Numeric(name, 0, 64) if number % 2 else Categorical(name, ("a", "b")) for number, name in enumerate(COLUMNS)
    ]
    return Schema(HOSTILE[0], tuple(HOSTILE), (*features, Categorical("category", tuple(HOSTILE))))


def wide_table(db: Database, name: str, *, labelled: bool) -> None:
    """Create a table for that schema: a row for each hostile value."""
    frame = pd.DataFrame({"category": HOSTILE})
    columns = {column: number % 64 + 0.5 if number % 2 else "a" for number, column in enumerate(COLUMNS)}
    frame = pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)
    if labelled:
        frame[HOSTILE[0]] = HOSTILE
    db.engine.create(name, exp.select("*").from_("made"), {"made": frame})


def by_python(path: Path) -> None:
    """Register, train and predict from Python."""
    with connect(path) as opened:
        opened.register("wide", wide_schema(), cap=1)
        opened.train("wide", name="w", method="rosnam", trees=60, depth=1)
        opened.model("w").predict("wide_new", into="scored")


def by_command(path: Path) -> None:
    """Register from a file, train and predict by commands."""
    path.with_name("wide.yml").write_text(schema_file.dump(wide_schema()), encoding="utf-8")
    words = ["--db", str(path), "--table"]
    assert (
        run_command_line(["register", *words, "wide", "--schema", str(path.with_name("wide.yml")), "--cap", "1"]) == 0
    )
    assert (
        run_command_line(
            ["train", *words, "wide", "--name", "w", "--method", "rosnam", "--trees", "60", "--depth", "1"]
        )
        == 0
    )
    assert run_command_line(["predict", *words, "wide_new", "--model", "w", "--into", "scored"]) == 0


def by_sql(path: Path) -> None:
    """Train and predict by SQL."""
    with duckdb.connect(str(path)) as connection:
        dpsql.attach(connection).register("wide", wide_schema(), cap=1)
        connection.execute(
            "FROM dpsql_train('wide', name := 'w', method := 'rosnam', trees := 60, depth := 1)"
        ).fetchall()
        connection.execute("CREATE TABLE scored AS FROM dpsql_score('w', 'wide_new')")


@pytest.mark.parametrize("calls", [by_python, by_command, by_sql])
def test_columns_classes_and_categories(db: Database, calls: Calls, tmp_path: Path) -> None:
    """A schema of hostile columns, with every hostile class and category, trains and predicts hostile labels."""
    wide_table(db, "wide", labelled=True)
    wide_table(db, "wide_new", labelled=False)
    db.close()
    calls(tmp_path / "data.duckdb")
    with connect(tmp_path / "data.duckdb") as opened:
        found = tables.rows_of(opened.engine, "SELECT category, prediction FROM scored")
        frame = opened.engine.frame(exp.select("*").from_("wide_new"))
        labels = dict(zip(frame["category"], opened.model("w").labels(frame), strict=True))
        assert {row["category"]: row["prediction"] for row in found} == labels
        assert set(labels) == set(HOSTILE)
        assert set(labels.values()) <= set(HOSTILE)
        assert intact(opened)


def test_the_default_method_learns_under_hostile_names(db: Database) -> None:
    """Classes and columns of hostile names are named in what the default method learned, stored and read again."""
    classes, columns = tuple(HOSTILE[::29]), COLUMNS[::29]
    schema = Schema("label", classes, tuple(Numeric(name, 0, 64) for name in columns))
    rows = range(40 * len(classes))
    frame = pd.DataFrame({name: [float(row % len(classes)) for row in rows] for name in columns})
    frame["label"] = [classes[row % len(classes)] for row in rows]
    db.engine.create("few", exp.select("*").from_("made"), {"made": frame})
    db.register("few", schema, cap=100)
    db.train("few", name="w", epsilon=100)
    learned = db.model("w").explain()
    assert {effect.feature for effect in learned.effects} == set(columns)
    assert set(db.model("w").certificate["facts"]["classes"]) == set(classes)
    assert str(learned)
    assert db.model("w").show(0, depth=1)
    assert intact(db)


def test_commands_find_tables_and_models(
    db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`predict --model=NAME --table=NAME` scores the table of that very name, though it look like a file's."""
    stock(db, BY_COMMAND)
    db.close()
    monkeypatch.chdir(tmp_path)
    for name in BY_COMMAND:
        code = run_command_line(["predict", "--db", "data.duckdb", f"--model={name}", f"--table={name}", "--json"])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        assert code == 0, shown.err
        assert {row["named"] for row in json.loads(shown.out)} == {name}
    with connect("data.duckdb") as opened:
        assert intact(opened)


def test_sql_finds_tables_and_models(db: Database, tmp_path: Path) -> None:
    """`dpsql_score` and `dpsql_predict` find every model and every table by name."""
    stock(db, BY_SQL)
    db.close()
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        opened = dpsql.attach(connection)
        for name in BY_SQL:
            text = "'" + name.replace("'", "''") + "'"
            found = connection.execute(f"SELECT DISTINCT named FROM dpsql_score({text}, {text})").fetchall()
            assert found == [(name,)]
            query = f"SELECT DISTINCT dpsql_predict({text}, one) FROM {quote(name)} AS one"
            assert set(connection.execute(query).fetchall()) <= {("no",), ("yes",)}
        assert intact(opened)


def test_python_leaves_tables_of_any_name(db: Database) -> None:
    """`predict(into=NAME)` makes a table of that very name, or refuses a blank one."""
    model, made = db.model("m"), []
    for name in BY_PYTHON:
        try:
            model.predict("fresh", into=name)
            made.append(name)
        except ParameterError:
            assert not name.strip()
    assert set(db.engine.tables()) == {"canary", "people", "fresh", *made}
    assert intact(db)


def test_generated_sql_creates_what_it_names(db: Database, tmp_path: Path) -> None:
    """Views and macros of any name are created by `dpsql sql --create` and hold the model's labels."""
    db.close()
    for number, name in enumerate(HOSTILE[::17]):
        form = ("view", "macro", "table_macro")[number % 3]
        words = ["sql", "--db", str(tmp_path / "data.duckdb"), "--model", "m", "--table", "fresh"]
        assert run_command_line([*words, "--create", f"--form={form}", f"--name={name}"]) in (0, 2)
    with connect(tmp_path / "data.duckdb") as opened:
        assert set(HOSTILE[::51]) <= set(opened.engine.tables())
        assert opened.engine.redefined_functions() == []
        assert intact(opened)


@pytest.mark.parametrize("surface", ["python", "command", "sql"])
def test_charges_under_hostile_names(db: Database, tmp_path: Path, surface: str) -> None:
    """Table, label, model, request, analyst: all hostile at once, registered, charged once, found in the ledger."""
    path = tmp_path / "data.duckdb"
    start = {"python": 0, "command": 1, "sql": 2}[surface]
    names = [(MODELS[i], MODELS[i + 1], MODELS[i + 2]) for i in range(start, len(MODELS) - 3, 72)]
    for table, label, who in names:
        tables.run(db.engine, f"CREATE TABLE {quote(table)} AS SELECT 1.5 AS number, 'no' AS {quote(label)}")
        db.register(table, Schema(label, ("no", "yes"), (Numeric("number", 0, 2),)), cap=1)
        db.set_cap(table, "0.5", analyst=who)
    db.close()
    charge = {"python": charge_by_python, "command": charge_by_command, "sql": charge_by_sql}[surface]
    for table, label, who in names:
        charge(path, table, label, who)
    with connect(path) as opened:
        rows = opened.ledger().to_dict("records")
        charged = [(row["table"], row["request_id"], row["who"]) for row in rows if row["event"] == "reserve"][1:]
        ids = [(table, request, who) for table, label, who in names for request in (f"{label}/size", label)]
        assert charged == ids  # the size is charged first, by itself
        assert all(opened.budget(table).spent_text == "0.25" for table, _, _ in names)
        assert all(opened.model(label).table == table for table, label, _ in names)
        assert intact(opened)


def charge_by_python(path: Path, table: str, label: str, who: str) -> None:
    """Train from Python; the label's name is also that of the model and of the request."""
    with connect(path, who=who) as opened:
        opened.train(table, epsilon="0.25", name=label, request_id=label, trees=1, depth=1)


def charge_by_command(path: Path, table: str, label: str, who: str) -> None:
    """Train by a command, twice under one request."""
    words = ["train", "--db", str(path), f"--table={table}", f"--name={label}", f"--request-id={label}", f"--as={who}"]
    for _ in range(2):
        assert run_command_line([*words, "--epsilon", "0.25", "--trees", "1", "--depth", "1"]) == 0


def charge_by_sql(path: Path, table: str, label: str, who: str) -> None:
    """Train by SQL."""
    texts = ["'" + text.replace("'", "''") + "'" for text in (table, label, label)]
    with duckdb.connect(str(path)) as connection:
        dpsql.attach(connection, who=who)
        query = "FROM dpsql_train({}, epsilon := 0.25, trees := 1, depth := 1, name := {}, request_id := {})"
        connection.execute(query.format(*texts)).fetchall()


def test_model_names_that_cannot_be_used(db: Database) -> None:
    """A blank or long name is refused before anything is charged."""
    before = tables.stored(db)
    refused = [name for name in HOSTILE if name not in MODELS]
    assert len(refused) > 10
    for name in refused:
        with pytest.raises(ParameterError, match="text of 1 to 200 characters"):
            db.train("people", name=name, trees=1, depth=1)
    assert tables.stored(db) == before


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--table={0}", "--method={0}", "--epsilon={0}"),
        ("register", "--table={0}", "--schema={0}", "--cap={0}"),
        ("budget", "--table={0}", "--set-cap={0}", "--analyst={0}"),
        ("import", "--from={0}", "--name={0}"),
    ],
    ids=lambda words: words[0],
)
def test_nonsense_in_every_option_is_a_clean_error(
    db: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """Where a name means nothing, the command says so with a known exit code and changes nothing."""
    monkeypatch.chdir(tmp_path)
    db.close()
    before = Path("data.duckdb").read_bytes()
    for name in HOSTILE[1::10]:
        given = [word.replace("{0}", name) for word in words]
        assert run_command_line([*given, "--db", "data.duckdb"]) in (2, 3)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("Error: ")
        assert not {"\x1b", "\x07", "\u202e"} & set(shown.err)
    assert Path("data.duckdb").read_bytes() == before
