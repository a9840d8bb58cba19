"""`dpsql models`, `show`, `predict`, `evaluate`, `sql`, `export`, `import`: free of charge."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pandas as pd
import pytest
import sqlglot

from dpsql.api.database import Database, connect
from dpsql.cli.printing.json_values import plain_numbers
from dpsql.errors import ParameterError, QueryFailed
from tests import tables

from .conftest import Cli, kept


def labels(db: Database, table: str = "fresh") -> list[str]:
    """Return the labels that Python predicts for a table."""
    frame = db.model("m").predict(table)
    assert isinstance(frame, pd.DataFrame)
    return list(frame["prediction"])


def test_models_lists_what_python_lists(cli: Cli, path: Path) -> None:
    """`models --json` equals `db.models()`."""
    found = cli("models", "--json").json
    with connect(path) as opened:
        assert found == plain_numbers(opened.models().to_dict("records"))
    assert [row["name"] for row in found] == ["m"]


def test_models_prints_a_table(cli: Cli) -> None:
    """Each model is a line with its method, table and epsilon."""
    line = [word.strip() for word in cli("models").out.splitlines()[2].split("│")]
    assert line[:3] == ["m", "rosnam", "people"]


def test_show_prints_certificate_and_tree(cli: Cli, path: Path) -> None:
    """The certificate's figures come first, then the tree as `model.show` draws it."""
    ran = cli("show", "--model", "m", "--tree", "1", "--depth", "1")
    with connect(path) as opened:
        drawn = opened.model("m").show(1, depth=1)
    assert "Private:     yes" in ran.out
    assert "Neighbours:  add or remove one row" in ran.out
    assert ran.out.endswith(f"Tree 1 of 3:\n{drawn}\n")


def test_show_as_json_is_the_certificate(cli: Cli, path: Path) -> None:
    """`show --json` holds the certificate that Python has."""
    with connect(path) as opened:
        certificate = dict(opened.model("m").certificate)
    assert cli("show", "--model", "m", "--json").json["certificate"] == certificate


def test_predict_a_table_equals_python(cli: Cli, path: Path) -> None:
    """The labels on stdout are those of `model.predict(table)`, odd rows included."""
    found = cli("predict", "--model", "m", "--table", "fresh", "--json").json
    with connect(path) as opened:
        assert [row["prediction"] for row in found] == labels(opened)


def test_predict_prints_at_most_twenty_rows(cli: Cli, path: Path) -> None:
    """A longer result ends with a note on stderr that says how to get the rest."""
    with connect(path) as opened:
        tables.run(opened.engine, "CREATE TABLE many AS FROM fresh, range(3) AS copies(copy)")
    ran = cli("predict", "--model", "m", "--table", "many")
    assert len(ran.out.splitlines()) == 22
    assert "more rows" in ran.err


def test_predict_shows_a_null_key_as_null(cli: Cli) -> None:
    """A missing key is NULL in the table and null in JSON."""
    assert "NULL" in cli("predict", "--model", "m", "--table", "fresh", "--key", "person").out
    found = cli("predict", "--model", "m", "--table", "fresh", "--key", "person", "--json").json
    assert None in [row["person"] for row in found]


def test_predict_with_key_gives_that_column_and_the_label(cli: Cli) -> None:
    """`--key` picks the one column that names a row."""
    found = cli("predict", "--model", "m", "--table", "keyed", "--key", "id", "--json").json
    assert {tuple(row) for row in found} == {("id", "prediction")}


def test_predict_with_shares(cli: Cli) -> None:
    """`--proba` adds a share for each class; they sum to one."""
    found = cli("predict", "--model", "m", "--table", "keyed", "--proba", "--json").json
    assert all(row["p_no"] + row["p_yes"] + row["p_maybe"] == pytest.approx(1) for row in found)


def test_predict_into_leaves_a_table(cli: Cli, path: Path) -> None:
    """`--into` keeps all columns and the label in the database."""
    ran = cli("predict", "--model", "m", "--table", "fresh", "--into", "scored")
    assert (ran.code, ran.out) == (0, 'Scored rows are in table "scored".\n')
    with connect(path) as opened:
        found = tables.rows_of(opened.engine, "SELECT prediction FROM scored")
        assert sorted(row["prediction"] for row in found) == sorted(labels(opened))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predict_a_file_equals_the_table(cli: Cli, path: Path, kind: str) -> None:
    """Rows from a CSV or Parquet file get the labels that they get as a table."""
    wanted = [row["prediction"] for row in cli("predict", "--model", "m", "--table", "keyed", "--json").json]
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"COPY keyed TO 'keyed.{kind}'")
    found = cli("predict", "--model", "m", "--file", f"keyed.{kind}", "--json").json
    assert [row["prediction"] for row in found] == wanted


def test_predict_to_writes_every_row(cli: Cli, path: Path) -> None:
    """`--to` writes a CSV file of all predictions and prints nothing on stdout."""
    ran = cli("predict", "--model", "m", "--table", "fresh", "--to", "labels.csv")
    assert (ran.code, ran.out) == (0, "")
    with Path("labels.csv").open() as file, connect(path) as opened:
        assert [row["prediction"] for row in csv.DictReader(file)] == labels(opened)


def test_predict_to_as_json_says_where(cli: Cli) -> None:
    """With `--to` the JSON value tells file and number of rows."""
    found = cli("predict", "--model", "m", "--table", "keyed", "--to", "labels.csv", "--json").json
    assert found == {"model": "m", "to": "labels.csv", "rows": 12}


def test_evaluate_equals_python(cli: Cli, path: Path) -> None:
    """`evaluate --json` equals `db.evaluate(...)`."""
    found = cli("evaluate", "--model", "m", "--table", "fresh", "--json").json
    with connect(path) as opened:
        wanted = opened.evaluate("m", "fresh").to_dict()
    sums = ("log_loss", "brier", "calibration_error", "reliability")  # of doubles, by the database, in any order
    assert [found.pop(name) for name in sums[:3]] == pytest.approx([wanted.pop(name) for name in sums[:3]], rel=1e-12)
    bins, wanted_bins = (pd.DataFrame(one.pop("reliability")) for one in (found, wanted))
    pd.testing.assert_frame_equal(bins, wanted_bins, rtol=1e-12)
    assert found == wanted


def test_evaluate_prints_accuracy_and_confusion(cli: Cli) -> None:
    """The accuracy stands beside that of the largest class, then the confusion table."""
    ran = cli("evaluate", "--model", "m", "--table", "fresh")
    assert "always the largest class" in ran.out
    assert "predicted maybe" in ran.out


@pytest.mark.parametrize("form", ["select", "view", "table_macro", "macro"])
def test_sql_equals_python(cli: Cli, path: Path, form: str) -> None:
    """`dpsql sql` prints what `model.sql` returns, and nothing else."""
    ran = cli("sql", "--model", "m", "--form", form, "--table", "fresh", "--name", "named")
    with connect(path) as opened:
        assert ran.out == opened.model("m").sql(form, table="fresh", name="named") + "\n"
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("form", "query"),
    [
        ("view", "SELECT prediction FROM named"),
        ("table_macro", "SELECT prediction FROM named('fresh')"),
        ("macro", "SELECT named(c, x) AS prediction FROM fresh"),
    ],
)
def test_sql_creates_what_predicts_the_same(cli: Cli, path: Path, form: str, query: str) -> None:
    """The view and the macros that `--create` leaves give the labels that predict gives."""
    assert cli("sql", "--model", "m", "--form", form, "--table", "fresh", "--name", "named", "--create").code == 0
    with connect(path) as opened:
        assert sorted(row["prediction"] for row in tables.rows_of(opened.engine, query)) == sorted(labels(opened))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--form", "select"), 2, "cannot be created"),
        (("--form", "view", "--table", "frsh"), 2, 'Did you mean "fresh"'),
        (("--form", "view", "--table", "people"), 3, "registered private table"),
        (("--form", "view", "--table", "fresh", "--name", "keyed"), 2, "a table of that name exists"),
        (("--form", "macro", "--name", "lower"), 2, "built-in function"),
    ],
)
def test_sql_creates_nothing_in_the_place_of_something(
    cli: Cli, path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    """A SELECT, a missing or private table, a taken name: refused, and the database stays as it was."""
    before = path.read_bytes()
    ran = cli("sql", "--model", "m", "--create", *words)
    assert ran.code == code
    assert message in ran.err
    assert path.read_bytes() == before


def test_a_model_goes_from_file_to_file(cli: Cli, path: Path) -> None:
    """What `export` writes, `import` stores: the same labels under another name, and no charge."""
    exported = cli("export", "--model", "m", "--to", "m.json")
    imported = cli("import", "--from", "m.json", "--name", "twin")
    assert (exported.code, exported.out, exported.err) == (0, "", "Wrote m.json.\n")
    assert (imported.code, imported.out) == (0, 'Stored model "twin".\n')
    with connect(path) as opened:
        assert opened.model("twin").predict("fresh").equals(opened.model("m").predict("fresh"))
        assert opened.budget("people").spent_text == "1"


def test_export_writes_what_python_writes(cli: Cli, path: Path) -> None:
    """The file holds `model.to_json()`."""
    cli("export", "--model", "m", "--to", "m.json")
    with connect(path) as opened:
        assert Path("m.json").read_text() == opened.model("m").to_json()


def test_a_script_is_what_python_writes(cli: Cli, path: Path) -> None:
    """`export --dialect` prints or writes `model.export_sql()`, with the same words."""
    words = ("--dialect", "sqlite", "--table", "fresh", "--form", "view", "--name", "moved", "--probabilities")
    printed = cli("export", "--model", "m", *words)
    written = cli("export", "--model", "m", *words, "--to", "m.sql")
    assert (written.code, written.out, written.err) == (0, "", "Wrote m.sql.\n")
    with connect(path) as opened:
        model = opened.model("m")
    text = model.export_sql("sqlite", table="fresh", form="view", name="moved", probabilities=True)
    assert Path("m.sql").read_text() == text
    assert printed.out.strip() == text.strip()


def test_an_onnx_file_is_what_python_writes(cli: Cli, path: Path) -> None:
    """`export --onnx` writes the file that `model.export_onnx()` writes."""
    pytest.importorskip("onnx")
    ran = cli("export", "--model", "m", "--onnx", "m.onnx")
    assert (ran.code, ran.out, ran.err) == (0, "", "Wrote m.onnx.\n")
    with connect(path) as opened:
        opened.model("m").export_onnx("twin.onnx")
    assert Path("m.onnx").read_bytes() == Path("twin.onnx").read_bytes()


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_the_private_table_is_not_read_for_free(cli: Cli, path: Path, command: str) -> None:
    """Scoring or evaluating on the registered table is refused with 3."""
    before = kept(path)
    ran = cli(command, "--model", "m", "--table", "people")
    assert ran.code == 3
    assert "cannot be read for free" in ran.err
    assert kept(path) == before


@pytest.mark.parametrize("label", ["yes", "no"])
def test_predict_decides_by_a_threshold(cli: Cli, path: Path, label: str) -> None:
    """`--threshold CLASS=P` gives the labels of `predict(threshold=)`; every share reaches a threshold of 0."""
    for threshold in (0.3, 0.0):
        found = cli("predict", "--model", "m", "--table", "fresh", "--threshold", f"{label}={threshold}", "--json").json
        with connect(path) as opened:
            wanted = opened.model("m").predict("fresh", threshold={label: threshold})["prediction"].tolist()
        assert [row["prediction"] for row in found] == wanted
    assert set(wanted) == {label}


def test_predict_decides_by_class_weights(cli: Cli, path: Path) -> None:
    """`--class-weight` gives the labels of `predict(class_weight=)`, which differ from the usual ones."""
    words = ["--class-weight", "yes=9", "--class-weight", "no=0.5"]
    found = [row["prediction"] for row in cli("predict", "--model", "m", "--table", "fresh", *words, "--json").json]
    with connect(path) as opened:
        model = opened.model("m")
        assert found == model.predict("fresh", class_weight={"yes": 9, "no": 0.5})["prediction"].tolist()
        assert found != model.predict("fresh")["prediction"].tolist()


def test_predict_lists_the_top_classes(cli: Cli, path: Path) -> None:
    """`--top 2` gives the columns of `predict_top`."""
    found = cli("predict", "--model", "m", "--table", "fresh", "--top", "2", "--json").json
    with connect(path) as opened:
        wanted = opened.model("m").predict_top("fresh", 2)
    assert [row["class_2"] for row in found] == wanted["class_2"].tolist()
    assert [row["probability_1"] for row in found] == wanted["probability_1"].tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--threshold", "yes"], "CLASS=P"),
        (["--threshold", "yes=much"], "CLASS=P"),
        (["--threshold", "yes=2"], "from 0 to 1"),
        (["--threshold", "yse=0.5"], 'Did you mean "yes"'),
        (["--class-weight", "yes"], "CLASS=W"),
        (["--class-weight", "yes=2", "--class-weight", "yes=3"], "once for each class"),
        (["--class-weight", "yes=0"], "from 1e-06"),
        (["--class-weight", "yes=2", "--threshold", "yes=0.2"], "one thing at a time"),
        (["--top", "9"], "from 1 to 3"),
        (["--top", "1", "--probabilities"], "one thing at a time"),
        (["--top", "1", "--into", "scored"], "does not go with --into"),
    ],
)
def test_predict_refuses_broken_decisions(cli: Cli, words: list[str], said: str) -> None:
    """A threshold or a top that makes no sense is a usage error that says what is allowed."""
    ran = cli("predict", "--model", "m", "--table", "fresh", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_sql_with_probabilities_has_a_column_for_each_class(cli: Cli) -> None:
    """`sql --probabilities` names them p_<class>."""
    assert all(f'"p_{name}"' in cli("sql", "--model", "m", "--probabilities").out for name in tables.SCHEMA.classes)


def test_a_look_says_nothing_of_more_rows_where_there_are_none(cli: Cli, path: Path) -> None:
    """Twenty rows are all shown, and nothing is left to say."""
    with connect(path) as opened:
        tables.run(opened.engine, "CREATE TABLE twenty AS SELECT x, c FROM fresh, range(5) AS copies(copy) LIMIT 20")
    ran = cli("predict", "--model", "m", "--table", "twenty")
    assert (len(ran.out.splitlines()), ran.err) == (22, "")


def test_predict_to_parquet_writes_parquet(cli: Cli, path: Path) -> None:
    """The ending says what is written."""
    ran = cli("predict", "--model", "m", "--table", "fresh", "--to", "labels.parquet")
    assert (ran.code, ran.out) == (0, "")
    with duckdb.connect() as connection, connect(path) as opened:
        rows = connection.execute("SELECT prediction FROM read_parquet('labels.parquet')").fetchall()
        assert [label for (label,) in rows] == labels(opened)


@pytest.mark.parametrize("name", ["labels.xlsx", "labels", "labels.csv.gz"])
def test_predict_to_another_kind_is_refused_with_the_list(cli: Cli, name: str) -> None:
    """A file of a kind that cannot be written is refused before anything is read."""
    ran = cli("predict", "--model", "m", "--table", "fresh", "--to", name)
    assert ran.code == 2
    assert ".csv or .parquet" in ran.err
    assert not Path(name).exists()


def test_predict_takes_a_table_or_a_file(cli: Cli) -> None:
    """With both the error says so, and does not ask for what was given."""
    ran = cli("predict", "--model", "m", "--table", "fresh", "--file", "fresh.csv")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "Error: name one: --table or --file.")


def test_predict_as_json_has_every_row(cli: Cli, path: Path) -> None:
    """JSON is one list of all rows, also where it comes in several chunks or there are none."""
    with connect(path) as opened:
        tables.run(opened.engine, "CREATE TABLE none AS FROM fresh LIMIT 0")
        tables.run(opened.engine, "CREATE TABLE many AS SELECT x, c, copy FROM fresh, range(7000) AS copies(copy)")
        wanted = labels(opened, "many")
    assert cli("predict", "--model", "m", "--table", "none", "--json").json == []
    assert [row["prediction"] for row in cli("predict", "--model", "m", "--table", "many", "--json").json] == wanted


def test_rows_too_wide_for_little_memory_get_more(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where DuckDB runs out of the memory that it is given, the command scores once more without a limit."""
    wide = ", ".join(f"RANDOM() AS w{number}" for number in range(60))
    with connect(path) as opened:
        tables.run(opened.engine, f"CREATE TABLE wide AS SELECT x, c, {wide} FROM fresh, range(2000) AS copies(copy)")
        wanted = labels(opened, "wide")
    monkeypatch.setattr("dpsql.cli.printing.labels_shown.SCORING_MEMORY", "1MB")
    assert cli("predict", "--model", "m", "--table", "wide", "--to", "labels.csv").code == 0
    with Path("labels.csv").open() as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == wanted


def test_a_memory_limit_is_held_and_checked(path: Path) -> None:
    """DuckDB gets no more than the limit, and a limit that is no size is refused."""
    with connect(path, memory_limit="64MB") as opened, pytest.raises(QueryFailed) as caught:
        opened.engine.frame(sqlglot.parse_one("SELECT LIST(range) FROM range(50000000)", dialect="duckdb"))
    assert caught.value.out_of_memory
    with pytest.raises(ParameterError, match="512MB"):
        connect(path, memory_limit="lots")
