"""`dpsql structure` and `dpsql predict --private`: free trees, labels of one batch for an epsilon."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import connect
from tests import tables

from .conftest import MARKERS, Cli, kept

STRUCTURE = ("structure", "--table", "people", "--trees", "6", "--depth", "2")
PRIVATE = ("predict", "--private", "--structure", "trees.json")
BATCH = (*PRIVATE, "--table", "fresh")


@pytest.fixture
def trees(path: Path) -> Path:
    """Write a structure for "people" next to the file, from Python."""
    with connect(path) as opened:
        text = opened.structure("people", trees=6, depth=2).to_json()
    file = path.with_name("trees.json")
    file.write_text(text, encoding="utf-8")
    return file


def spent(path: Path) -> str:
    """Return what "people" has spent; 1 of it on the model of the template."""
    with connect(path) as opened:
        return str(opened.budget("people").spent_text)


def labels(rows: list[dict[str, Any]]) -> list[str]:
    """Return the predictions of rows."""
    return [row["prediction"] for row in rows]


# The command `structure`.


def test_a_structure_is_written_for_nothing(cli: Cli, path: Path) -> None:
    """The file holds what Python gives, the next command is on stderr, and the database is as it was."""
    before = kept(path)
    ran = cli(*STRUCTURE, "--seed", "3", "--to", "trees.json")
    assert (ran.code, ran.out) == (0, 'Wrote trees.json: trees for "people".\n')
    assert "--private --structure trees.json" in ran.err
    assert kept(path) == before
    with connect(path) as opened:
        assert Path("trees.json").read_text() == opened.structure("people", trees=6, depth=2, seed=3).to_json()


def test_a_structure_as_json(cli: Cli) -> None:
    """`--json` says the table, the file and every parameter, as the file does."""
    found = cli(*STRUCTURE, "--to", "trees.json", "--json").json
    written = json.loads(Path("trees.json").read_text())
    assert (found["table"], found["to"], found["parameters"]["trees"]) == ("people", "trees.json", 6)
    assert found["parameters"] == written["parameters"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--table", "peopel", "--to", "a.json"), 2, 'Did you mean "people"?'),
        (("--table", "fresh", "--to", "a.json"), 3, "not registered"),
        (("--table", "people", "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
        (("--table", "people", "--to", "none/a.json"), 2, "a folder that exists"),
        (("--table", "people", "--to", "a.json", "--trees", "0"), 2, "trees must be a whole number from 1"),
        (("--table", "people", "--to", "a.json", "--strategy", "none"), 2, "strategy must be one of best, identity"),
        (("--table", "people"), 2, "Missing option '--to'"),
        (("--to", "a.json"), 2, "Missing option '--table'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_broken_structure_writes_no_file(cli: Cli, path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """The message says what is wrong; there is no new file and nothing on stdout."""
    before = kept(path)
    ran = cli("structure", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert not Path("a.json").exists()
    assert kept(path) == before


@pytest.mark.parametrize(("command", "said"), [("structure", "Free of charge"), ("predict", "CHARGED for this batch")])
def test_help_shows_the_two_commands(cli: Cli, command: str, said: str) -> None:
    """Each help has an example of the private batch, and says what it costs."""
    ran = cli(command, "--help", db=None)
    assert ran.code == 0
    assert "dpsql predict --db data.duckdb --private --structure cars.json" in ran.out
    assert said in " ".join(ran.out.split())


# The command `predict --private`.


def test_both_commands_end_to_end(cli: Cli, path: Path) -> None:
    """A structure, then labels for a charge, then the same labels by the command that stderr names, for nothing."""
    assert cli(*STRUCTURE, "--to", "trees.json").code == 0
    ran = cli(*BATCH, "--epsilon", "0.5")
    assert ran.code == 0, ran.err
    assert 'Epsilon 0.5 of "people" pays for this batch: 8.5 left.' in ran.err
    assert " --model people_batch_1 --table fresh" in ran.err
    before = kept(path)
    assert cli("predict", "--model", "people_batch_1", "--table", "fresh").out == ran.out
    assert kept(path) == before
    assert spent(path) == "1.5"


@pytest.mark.usefixtures("trees")
def test_one_epsilon_is_the_default(cli: Cli, path: Path) -> None:
    """Without `--epsilon` and `--way` a batch costs 1, and all trees see all rows."""
    assert cli(*BATCH).code == 0
    assert spent(path) == "2"
    assert cli("show", "--model", "people_batch_1", "--json").json["certificate"]["batch"]["way"] == "batch"


@pytest.mark.usefixtures("trees")
def test_json_is_the_labelled_rows(cli: Cli, path: Path) -> None:
    """`--json` gives the rows with their labels and nothing else; they are those of the stored model."""
    found = cli(*BATCH, "--json").json
    assert list(found[0]) == ["person", "y", "prediction"]
    with connect(path) as opened:
        stored: Any = opened.model("people_batch_1").predict("fresh")
    assert labels(found) == stored["prediction"].tolist()


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(("rows", "way"), [("all", "batch"), ("parts", "subsample")])
def test_a_dry_run_touches_nothing(cli: Cli, path: Path, rows: str, way: str) -> None:
    """`--dry-run` shows the one step and the budget, as text and as JSON."""
    before = kept(path)
    ran = cli(*BATCH, "--epsilon", "2", "--trees-see", rows, "--dry-run")
    assert ran.code == 0
    assert "linear" in ran.out
    assert "After this run: 3 spent." in ran.out
    found = cli(*BATCH, "--epsilon", "2", "--trees-see", rows, "--dry-run", "--json").json
    assert (found["epsilon"], found["fits"], found["budget"]["spent"]) == (2, True, 1)
    assert found["plan"]["parameters"]["way"] == way
    assert kept(path) == before


@pytest.mark.usefixtures("trees")
def test_a_dry_run_says_what_would_be_refused(cli: Cli, path: Path) -> None:
    """More than is left is exit code 3, and `fits` is false."""
    before = kept(path)
    ran = cli(*BATCH, "--epsilon", "9.5", "--dry-run", "--json")
    assert (ran.code, ran.json["fits"]) == (3, False)
    assert kept(path) == before


@pytest.mark.usefixtures("trees")
def test_a_batch_without_budget_is_refused(cli: Cli, path: Path) -> None:
    """When the budget is gone the exit code is 3, and there is no charge, no model and no file."""
    assert cli(*BATCH, "--epsilon", "9").code == 0
    before = kept(path)
    ran = cli(*BATCH, "--epsilon", "0.1", "--to", "labels.csv")
    assert (ran.code, ran.out) == (3, "")
    assert 'needs epsilon 0.1, but table "people" has 0 of 10 left' in ran.err
    assert kept(path) == before
    assert not Path("labels.csv").exists()
    assert [row["name"] for row in cli("models", "--json").json] == ["m", "people_batch_1"]


@pytest.mark.usefixtures("trees")
def test_one_request_is_one_charge(cli: Cli, path: Path) -> None:
    """Asked again under its id, the same labels come and nothing is charged."""
    first = cli(*BATCH, "--request-id", "r1", "--json")
    _, receipt = kept(path)
    assert cli(*BATCH, "--request-id", "r1", "--json").json == first.json
    assert kept(path)[1] == receipt
    assert spent(path) == "2"


@pytest.mark.usefixtures("trees")
def test_model_names_what_is_released(cli: Cli) -> None:
    """With `--private` the model's name is that of the new model; a taken name is refused."""
    assert "--model mine" in cli(*BATCH, "--model", "mine").err
    assert "mine" in [row["name"] for row in cli("models", "--json").json]
    ran = cli(*BATCH, "--model", "mine")
    assert (ran.code, ran.out) == (2, "")
    assert "a model of that name exists" in ran.err


@pytest.mark.usefixtures("trees")
def test_into_leaves_labels_in_the_database(cli: Cli, path: Path) -> None:
    """`--into` makes a table of all columns and the label; `--json` names it and the model."""
    found = cli(*BATCH, "--into", "scored", "--json").json
    assert found == {"model": "people_batch_1", "into": "scored"}
    again = cli("predict", "--model", "people_batch_1", "--table", "fresh", "--json").json
    with connect(path) as opened:
        rows = tables.rows_of(opened.engine, "FROM scored")
    assert list(rows[0]) == ["person", "x", "c", "y", "prediction"]
    assert sorted(labels(rows)) == sorted(labels(again))


@pytest.mark.usefixtures("trees")
def test_to_writes_a_file_of_labels(cli: Cli) -> None:
    """`--to` writes every row to a new CSV file; `--json` says how many."""
    found = cli(*BATCH, "--to", "labels.csv", "--json").json
    again = cli("predict", "--model", "people_batch_1", "--table", "fresh", "--json").json
    with Path("labels.csv").open(newline="", encoding="utf-8") as file:
        assert labels(list(csv.DictReader(file))) == labels(again)
    assert found == {"model": "people_batch_1", "to": "labels.csv", "rows": len(again)}


@pytest.mark.usefixtures("trees")
def test_a_file_is_a_batch(cli: Cli, path: Path) -> None:
    """Rows of a CSV file are labelled for the same charge, and the free command for them is named."""
    Path("new.csv").write_text("x,c,id\n1,a,p\n63,b,q\n", encoding="utf-8")
    ran = cli(*PRIVATE, "--file", "new.csv", "--epsilon", "0.5", "--json")
    assert [row["id"] for row in ran.json] == ["p", "q"]
    assert " --model people_batch_1 --file new.csv" in ran.err
    assert cli("predict", "--model", "people_batch_1", "--file", "new.csv", "--json").json == ran.json
    assert spent(path) == "1.5"


def test_a_stored_model_gives_the_trees(cli: Cli, path: Path) -> None:
    """The name of an mrf model stands for its structure."""
    with connect(path) as opened:
        opened.train("people", method="mrf", name="forest", trees=6, depth=2)
    assert cli("predict", "--private", "--structure", "forest", "--table", "fresh").code == 0
    assert spent(path) == "3"


@pytest.mark.usefixtures("trees")
def test_no_private_value_is_shown(cli: Cli) -> None:
    """Neither labels nor plans nor errors hold a cell of the private table."""
    for words in ((), ("--dry-run",), ("--dry-run", "--json"), ("--json", "--probabilities"), ("--epsilon", "50")):
        ran = cli(*BATCH, *words)
        assert (ran.out + ran.err).strip()
        assert not [marker for marker in MARKERS if marker in ran.out + ran.err]


SCORE = ("predict", "--model", "m", "--table", "fresh")
CASES: list[tuple[tuple[str, ...], int, str]] = [
    (("predict", "--table", "fresh"), 2, "name the model to score with.\nTry:   --model NAME"),
    ((*SCORE, "--structure", "trees.json"), 2, "--structure goes with --private"),
    ((*SCORE, "--epsilon", "1"), 2, "--epsilon goes with --private"),
    ((*SCORE, "--trees-see", "all"), 2, "--trees-see goes with --private"),
    ((*SCORE, "--request-id", "r1"), 2, "--request-id goes with --private"),
    ((*SCORE, "--dry-run"), 2, "--dry-run goes with --private"),
    (("predict", "--private", "--table", "fresh"), 2, "name what the trees look like.\nTry:   --structure FILE"),
    (PRIVATE, 2, "name the rows to score"),
    ((*BATCH, "--file", "new.csv"), 2, "name one: --table or --file"),
    ((*BATCH, "--trees-see", "both"), 2, "'both' is not one of 'all', 'parts'"),
    ((*BATCH, "--epsilon", "many"), 2, "epsilon must be a number above 0"),
    ((*BATCH, "--epsilon", "9.5"), 3, 'needs epsilon 9.5, but table "people" has 9 of 10 left'),
    ((*BATCH, "--request-id", ""), 2, "request_id must be text, not empty"),
    ((*BATCH, "--request-id", "first"), 2, "request_id must be new for a new request"),
    ((*BATCH, "--model", "m"), 2, "a model of that name exists"),
    ((*BATCH, "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
    ((*BATCH, "--epsilon", ""), 2, "epsilon must be a number above 0"),
    ((*BATCH, "--into", "fresh"), 2, "exists, and tables are never overwritten"),
    ((*BATCH, "--key", "nope"), 2, "--key does not go with --private"),
    ((*BATCH, "--threshold", "zzz"), 2, "--threshold does not go with --private"),
    ((*BATCH, "--top", "99"), 2, "--top does not go with --private"),
    ((*BATCH, "--probabilities"), 2, "--probabilities does not go with --private"),
    ((*BATCH, "--into", "s", "--to", "s.csv"), 2, "--to does not go with --into"),
    ((*BATCH, "--read-only"), 4, "opened read-only"),
    ((*PRIVATE, "--table", "people"), 3, "cannot be read for free"),
    ((*PRIVATE, "--table", "frsh"), 2, 'Did you mean "fresh"?'),
    ((*PRIVATE, "--file", "none.csv"), 4, "there is no file"),
    (("predict", "--private", "--structure", "none.json", "--table", "fresh"), 2, "no structure file"),
    (("predict", "--private", "--structure", "m", "--table", "fresh"), 2, "only mrf labels batches privately"),
    (("predict", "--private", "--structure", "n", "--table", "fresh"), 2, 'there is no model "n"'),
]


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(("words", "code", "said"), CASES, ids=[" ".join(case[0])[:70] for case in CASES])
def test_broken_requests_are_refused_before_any_charge(
    cli: Cli, path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """The message says what is wrong, stdout is empty, and file and receipt are as they were."""
    before = kept(path)
    ran = cli(*words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert kept(path) == before
