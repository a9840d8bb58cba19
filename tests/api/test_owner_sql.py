"""The owner's acts from SQL on a DuckDB connection: register, draft, caps, verify, batches, parties, private labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.engines.duckdb.engine import Connection
from tests import tables

DECLARED = "label := 'y', classes := ['no', 'yes'], features := {x: {type: 'numeric', lower: 0, upper: 10}}"


@pytest.fixture
def con() -> Iterator[Connection]:
    """Open a plain DuckDB connection with a table "plain" of 2,000 rows in two batches."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE plain AS SELECT i AS person, (i * 7919 % 1000) / 100.0 AS x, "
        "CASE WHEN i % 3 = 0 THEN 'yes' ELSE 'no' END AS y, 'w' || (i % 4) AS word, "
        "CASE WHEN i % 2 = 0 THEN 'old' ELSE 'new' END AS month FROM range(2000) AS r(i)"
    )
    yield connection
    connection.close()


@pytest.fixture
def db(con: Connection) -> Database:
    """Attach dpsql to it."""
    return dpsql.attach(con, who="owner")


def rows(con: Connection, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    result = con.execute(query, values or {})
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@pytest.mark.parametrize("verb", ["FROM", "CALL"])
def test_a_plain_table_is_registered_by_buying(con: Connection, db: Database, verb: str) -> None:
    """No schema at all: bounds, size and classes are bought, texts are hashed, and the charge is in the ledger."""
    [row] = rows(con, f"{verb} dpsql_register('plain', label := 'y', cap := 3, buy := 0.2)")
    assert (row["table_name"], row["cap"], row["spent"], row["bought"]) == ("plain", "3", "0.2", "0.2")
    assert json.loads(row["declared"])["classes"] == ["no", "yes"]
    assert db.budget("plain").spent_text == "0.2"


SCHEMAS = {
    "a STRUCT": "{label: 'y', classes: ['no', 'yes'], features: {x: {type: 'numeric', lower: 0, upper: 10}}}",
    "JSON": """'{"label": "y", "classes": ["no", "yes"],
        "features": {"x": {"type": "numeric", "lower": 0, "upper": 10}}}'""",
    "YAML": "'label: y\nclasses: [no, yes]\nfeatures:\n  x: {type: numeric, lower: 0, upper: 10}\n'",
}


@pytest.mark.parametrize("name", [*SCHEMAS, "a file", "its parts"])
def test_a_schema_is_a_struct_a_text_a_file_or_its_parts(
    con: Connection, db: Database, name: str, tmp_path: Path
) -> None:
    """All of them declare the same."""
    if name == "a file":
        file = tmp_path / "it's.yml"
        file.write_text(SCHEMAS["YAML"].strip("'"))
        [row] = rows(con, "FROM dpsql_register('plain', schema := $file, cap := '2.5')", {"file": str(file)})
    else:
        declared = DECLARED if name == "its parts" else f"schema := {SCHEMAS[name]}"
        [row] = rows(con, f"FROM dpsql_register('plain', {declared}, cap := '2.5')")
    assert (row["cap"], row["features"], row["unit"]) == ("2.5", 1, "row")
    assert json.loads(row["declared"])["features"] == {"x": {"type": "numeric", "lower": 0.0, "upper": 10.0}}


def test_the_same_registration_again_writes_nothing(con: Connection, db: Database) -> None:
    """A relation is run each time it is looked at: the second look shows the same row, and costs nothing."""
    relation = con.sql("FROM dpsql_register('plain', label := 'y', cap := 3, buy := 0.2, holdout := '10%')")
    first = relation.fetchall()
    before = tables.stored(db)
    assert relation.fetchall() == first
    assert rows(con, "CALL dpsql_register('plain', label := 'y', cap := 3, buy := 0.2, holdout := '10%')")
    assert tables.stored(db) == before


def test_another_registration_is_refused_as_ever(con: Connection, db: Database) -> None:
    """In other words, after another one, or with another file: "already registered", and the next step is SQL."""
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    with pytest.raises(duckdb.Error, match="already registered") as refused:
        rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 4)")
    assert "FROM dpsql_register('plain', …, replace := true)" in str(refused.value)
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 4, replace := true)")
    with pytest.raises(duckdb.Error, match="already registered"):
        rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    assert db.budget("plain").cap_text == "4"


def test_a_file_that_changed_says_something_else(con: Connection, db: Database, tmp_path: Path) -> None:
    """The second look at a replacing registration takes the new file, and the third changes nothing."""
    file = tmp_path / "plain.yml"
    query = f"SELECT declared FROM dpsql_register('plain', schema := '{file}', cap := 3, replace := true)"
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    file.write_text(SCHEMAS["YAML"].strip("'"))
    con.execute(query).fetchall()
    file.write_text(SCHEMAS["YAML"].strip("'").replace("10", "20"))
    [(declared,)] = con.execute(query).fetchall()
    before = tables.stored(db)
    assert json.loads(declared)["features"]["x"]["upper"] == 20
    assert con.execute(query).fetchall() == [(declared,)]
    assert tables.stored(db) == before


@pytest.mark.parametrize("words", ["EXPLAIN", "PREPARE later AS", "DESCRIBE", "CREATE TEMP VIEW later AS"])
def test_looking_at_the_statement_registers_nothing(con: Connection, db: Database, words: str) -> None:
    """EXPLAIN, PREPARE, DESCRIBE and a view plan the call and do not run it."""
    before = tables.stored(db)
    con.execute(f"{words} FROM dpsql_register('plain', {DECLARED}, cap := 3)").fetchall()
    assert tables.stored(db) == before


def test_units_hold_outs_views_and_public_data(con: Connection, db: Database) -> None:
    """What `dpsql register` takes, SQL takes too."""
    [row] = rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3, unit := 'person:2', holdout := '10%')")
    assert (row["unit"], row["holdout"]) == ('"person", at most 2 rows each', "plain:holdout")
    con.execute("CREATE TABLE open AS FROM plain; CREATE TABLE visits AS SELECT person, y FROM plain")
    assert rows(con, f"FROM dpsql_register('open', {DECLARED}, no_cap := true)")[0]["cap"] == "no cap"
    schema = "{label: 'y', classes: ['no', 'yes'], features: {n: {type: 'numeric', lower: 0, upper: 10}}}"
    label = "CASE WHEN count(*) > 1 THEN 'yes' ELSE 'no' END AS y"
    query = f"SELECT person, count(*) AS n, {label} FROM visits GROUP BY person"
    call = f"FROM dpsql_register('many', schema := {schema}, view := $view, unit := 'person', cap := 1)"
    assert rows(con, call, {"view": query})[0]["table_name"] == "many"


@pytest.mark.usefixtures("caps_in_words")
def test_a_large_cap_is_noted_or_refused(con: Connection, db: Database) -> None:
    """Above 10 the row says what it means; above 20 it must be meant."""
    for _ in range(2):
        assert "odds" in rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 15)")[0]["note"]
    with pytest.raises(duckdb.Error, match="no protection"):
        rows(con, "FROM dpsql_set_cap('plain', 25)")
    assert rows(con, "FROM dpsql_set_cap('plain', 25, allow_large := true)")[0]["cap"] == "25"


def test_a_draft_is_rows_and_a_text(con: Connection, db: Database) -> None:
    """One row for each column, and the file; values that the owner calls public are looked up, as the ledger says."""
    proposals = {row["column"]: row for row in rows(con, "FROM dpsql_draft('plain', label := 'y')")}
    assert proposals["y"]["role"] == "label"
    assert json.loads(proposals["x"]["feature"])["lower"] is None
    [text] = rows(con, "FROM dpsql_draft_text('plain', label := 'y', values_are_public := ['word', 'y'])")
    assert "w0" in text["text"]
    assert rows(con, "SELECT event, who FROM dpsql.entry") == [{"event": "lookup", "who": "owner"}]


def test_caps_are_set_once_and_can_be_set_back(con: Connection, db: Database) -> None:
    """A second look writes nothing; after another cap the first statement is an act of its own again."""
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    [row] = rows(con, "FROM dpsql_set_cap('plain', 5)")
    assert (row["cap"], row["left"], row["analyst"]) == ("5", "5", None)
    before = tables.stored(db)
    rows(con, "FROM dpsql_set_cap('plain', 5)")
    assert tables.stored(db) == before
    rows(con, "FROM dpsql_set_cap('plain', 2)")
    rows(con, "FROM dpsql_set_cap('plain', 5)")
    assert db.budget("plain").cap_text == "5"
    assert rows(con, "FROM dpsql_set_cap('plain', 1, analyst := 'bob')")[0]["analyst"] == "bob"
    assert rows(con, "FROM dpsql_set_cap('plain', '0.5', default_analyst := true)")[0]["cap"] == "0.5"
    [row] = rows(con, "FROM dpsql_set_cap('plain', 3, kind := 'approximate', delta := 1e-6)")
    assert row["kind"] == "approximate"


def test_verify_says_that_the_ledger_is_sound_or_what_is_not(con: Connection, db: Database) -> None:
    """One row either way."""
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    con.execute("PREPARE later AS FROM dpsql_verify()")
    assert rows(con, "EXECUTE later") == [{"sound": True, "problem": None}]
    con.execute("UPDATE dpsql.budget SET cap = 9000000000")
    assert rows(con, "EXECUTE later")[0]["sound"] is False


def test_a_batch_is_added_to_a_model(con: Connection, db: Database) -> None:
    """Under one request id two looks are one charge."""
    batched = (
        "{label: 'y', classes: ['no', 'yes'], batch: 'month', features: {x: {type: 'numeric', lower: 0, upper: 10}}}"
    )
    rows(con, f"FROM dpsql_register('plain', schema := {batched}, cap := 3)")
    rows(con, "FROM dpsql_train('plain', method := 'rdt', batch := 'old', trees := 2, depth := 2, name := 'm')")
    query = "FROM dpsql_update('m', 'new', name := 'm2', request_id := 'once')"
    assert rows(con, query) == rows(con, query)
    assert db.model("m2").certificate["epsilon"] == "1"
    assert len(db.models()) == 2


def test_parties_count_in_shared_trees_and_merge(con: Connection, db: Database) -> None:
    """One exports the trees, each contributes, any of them merges; what is merged twice is stored once."""
    con.execute("CREATE TABLE elsewhere AS FROM plain")
    for table in ("plain", "elsewhere"):
        rows(con, f"FROM dpsql_register('{table}', {DECLARED}, cap := 3)")
    [shared] = rows(con, "FROM dpsql_export_structure('plain', trees := 2, depth := 2)")
    texts = []
    for table in ("plain", "elsewhere"):
        call = f"FROM dpsql_contribute('{table}', $trees, epsilon := 0.5, name := 'of_{table}')"
        texts += [row["text"] for row in rows(con, call, {"trees": shared["text"]})]
    [merged] = rows(con, "FROM dpsql_merge([$one, $other])", {"one": texts[0], "other": texts[1]})
    assert (merged["model"], merged["epsilon"]) == ("merged", "0.5")
    again = rows(con, "FROM dpsql_merge(['of_plain', 'of_elsewhere'])")
    assert (again[0]["model"], len(db.models())) == ("merged", 3)
    with pytest.raises(duckdb.Error, match="a model of that name exists"):
        rows(con, "FROM dpsql_merge(['of_plain', 'of_elsewhere'], name := 'of_plain')")


def test_parties_with_other_columns_unite(con: Connection, db: Database) -> None:
    """Everyone is in both tables, so the epsilons add up."""
    con.execute("CREATE TABLE wide AS SELECT y, x AS z FROM plain")
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    rows(con, f"FROM dpsql_register('wide', {DECLARED.replace('x:', 'z:')}, cap := 3)")
    for table in ("plain", "wide"):
        rows(con, f"FROM dpsql_train('{table}', method := 'rdt', trees := 2, depth := 2, name := 'of_{table}')")
    [united] = rows(con, "FROM dpsql_unite(['of_plain', 'of_wide'], name := 'both')")
    assert (united["epsilon"], united["composition"].split(":")[0]) == ("2", "sequential")
    con.execute("CREATE TABLE fresh AS SELECT x, x AS z FROM range(0, 5) AS r(x)")
    assert len(rows(con, "FROM dpsql_score('both', 'fresh')")) == 5


def test_new_rows_are_labelled_privately(con: Connection, db: Database) -> None:
    """The structure is free, the labels are charged, and reading them is free."""
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    con.execute("CREATE TABLE fresh AS SELECT x FROM range(0, 5) AS r(x)")
    [trees] = rows(con, "FROM dpsql_structure('plain', trees := 2, depth := 2)")
    assert db.budget("plain").spent_text == "0"
    call = "FROM dpsql_predict_private($trees, 'fresh', epsilon := 0.5, name := 'labels', request_id := 'a')"
    assert rows(con, call, {"trees": trees["text"]}) == rows(con, call, {"trees": trees["text"]})
    assert db.budget("plain").spent_text == "0.5"
    assert len(rows(con, "FROM dpsql_score('labels', 'fresh')")) == 5


REFUSED = [
    (f"FROM dpsql_register(NULL, {DECLARED}, cap := 3)", "table_name must be"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := NULL)", "cap must be"),
    ("FROM dpsql_register('plain', schema := NULL, label := 'y', cap := 3, buy := 1)", "schema must be"),
    ("FROM dpsql_register('plain', label := 'y', cap := 3, buy := NULL)", "buy must be"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, unit := NULL)", "unit must be"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, holdout := NULL)", "holdout must be"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, replace := NULL)", "replace must be"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, replace := 'yes')", "replace must be true or false"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, colour := 'red')", "does not support the supplied arguments"),
    (f"FROM dpsql_register('plain', {DECLARED})", "say what all runs together may cost"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, no_cap := true)", "say what all runs together may cost"),
    ("FROM dpsql_register('plain', cap := 3)", "a schema is needed"),
    ("FROM dpsql_register('plain', schema := 'no such.yml', cap := 3)", "no such.yml"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 'nan'::DOUBLE)", "cap must be a number above 0"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := [3])", "cap must be a text or a number"),
    (f"FROM dpsql_register('plain''; DROP TABLE plain; --', {DECLARED}, cap := 3)", "there is no table"),
    ("FROM dpsql_register('plain', label := 'y\"; DROP TABLE plain; --', cap := 3, buy := 0.1)", "there is no column"),
    (f"FROM dpsql_register('plain', {DECLARED}, cap := 3, like := 'x.csv')", "like goes with buy"),
    ("FROM dpsql_set_cap('plain', NULL)", "cap must be"),
    ("FROM dpsql_set_cap('plain', 3, analyst := NULL)", "analyst must be"),
    ("FROM dpsql_set_cap('plain', 3)", "not registered"),
    ("FROM dpsql_draft('plain', label := 'z')", 'there is no column "z"'),
    ("FROM dpsql_draft('plain', values_are_public := 3)", 'called "3"'),
    ("FROM dpsql_draft('plain', values_are_public := true)", "values_are_public must be"),
    ("FROM dpsql_draft('plain', values_are_public := ['word', NULL])", "values_are_public must be"),
    ("FROM dpsql_update(NULL, 'new')", "model must be"),
    ("FROM dpsql_update('m', 'new')", 'there is no model "m"'),
    ("FROM dpsql_contribute('plain', 'nowhere.json')", "FROM dpsql_export_structure"),
    ("FROM dpsql_unite(['m'])", 'there is no model "m"'),
    ("FROM dpsql_unite(NULL)", "models must be"),
    ("FROM dpsql_predict_private('{}', 'fresh')", "structure must be"),
    ("FROM dpsql_predict_private('s.json', 'fresh')", "FROM dpsql_structure('TABLE')"),
    ("FROM dpsql_structure('plain', trees := 'many')", "trees must be a whole number"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED, ids=[query for query, _ in REFUSED])
def test_bad_calls_are_refused_and_leave_no_trace(con: Connection, db: Database, query: str, message: str) -> None:
    """NULLs, unknown arguments, SQL in names: our words, nothing written, nothing charged, the table still there."""
    before = tables.stored(db)
    with pytest.raises(duckdb.Error) as refused:
        con.execute(query).fetchall()
    assert message in str(refused.value)
    assert tables.stored(db) == before
    assert con.execute("SELECT count(*) FROM plain").fetchall() == [(2000,)]


def test_names_are_values(con: Connection, db: Database) -> None:
    """A table and a column with quotes and semicolons in their names register like any other."""
    con.execute('CREATE TABLE "a\'; DROP TABLE plain; --" AS SELECT x AS "x\'""; --", y FROM plain')
    features = "MAP {'x''\"; --': {type: 'numeric', lower: 0, upper: 10}}"
    call = f"FROM dpsql_register($name, label := 'y', classes := ['no', 'yes'], features := {features}, cap := 3)"
    [row] = rows(con, call, {"name": "a'; DROP TABLE plain; --"})
    assert row["table_name"] == "a'; DROP TABLE plain; --"
    assert rows(con, "SELECT count(*) AS n FROM plain") == [{"n": 2000}]


def test_attaching_again_replaces_the_functions(con: Connection, db: Database) -> None:
    """The acts of an earlier attach are taken off, and the new name is in the ledger."""
    dpsql.attach(con, who="other")
    rows(con, f"FROM dpsql_register('plain', {DECLARED}, cap := 3)")
    assert rows(con, "SELECT who FROM dpsql.entry") == [{"who": "other"}]


def test_models_are_kept_in_order(con: Connection, db: Database) -> None:
    """Tagged, renamed and dropped; a relation that is looked at twice does it once, and the charge stays."""
    rows(con, f"CALL dpsql_register('plain', {DECLARED}, cap := 3)")
    rows(con, "FROM dpsql_train('plain', epsilon := 0.5, method := 'rdt', name := 'm', trees := 2)")
    assert rows(con, "CALL dpsql_tag_model('m', ['stage=live', 'good'])")[0]["tags"] == ["good", "stage=live"]
    assert rows(con, "CALL dpsql_tag_model('m', 'good', remove := true)")[0]["tags"] == ["stage=live"]
    renamed = con.sql("FROM dpsql_rename_model('m', 'n')")
    for _ in range(2):
        assert renamed.fetchall() == [("n", "m", False, None)]
    dropped = con.sql("FROM dpsql_drop_model('n')")
    for _ in range(2):
        assert dropped.fetchall() == [("n", None, True, None)]
    assert len(db.models()) == 0
    assert db.budget("plain").spent_text == "0.5"
    with pytest.raises(duckdb.Error, match='there is no model "m"'):
        con.execute("CALL dpsql_drop_model('m')")
