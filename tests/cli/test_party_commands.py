"""`dpsql update`, `dpsql party` and `dpsql show` of what they make: end to end, JSON shapes, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.models.usable_model import Model
from dpsql.schema import Numeric, Schema
from tests import tables
from tests.test_batch import BATCHED

from .conftest import Cli, Ran, kept

SMALL = ("--trees", "2", "--depth", "2")
RDT = ("--method", "rdt", *SMALL)


@pytest.fixture
def batches(cli: Cli, path: Path) -> Cli:
    """Register "sales" with three batches under a cap of 1, and train model "jan" on the first at epsilon 0.5."""
    with connect(path, who="bob") as db:
        rows = [(k, float(k), "ab"[k % 2], ("no", "yes")[k % 2], f"2026-0{1 + k % 3}") for k in range(30)]
        tables.fill(db.engine, "sales", rows, tables.TYPES | {"month": "VARCHAR"})  # type: ignore[arg-type]
        db.register("sales", BATCHED, cap=1)
    words = ("train", "--table", "sales", "--epsilon", "0.5", "--batch", "2026-01", "--name", "jan")
    assert cli(*words, *RDT).code == 0
    return cli


@pytest.fixture
def structure(cli: Cli) -> str:
    """Export the structure that all parties count in."""
    assert cli("party", "export-structure", "--table", "people", *SMALL, "--to", "structure.json").code == 0
    return "structure.json"


def other_party(path: Path, name: str) -> Path:
    """Return a second file with a registered table "people" of its own."""
    with tables.on_disk(path.parent / name, tables.some_rows(30), cap=10):
        return path.parent / name


def contribute(cli: Cli, structure: str, to: str, db: Path, *more: str) -> Ran:
    """Let one party count its rows."""
    return cli("party", "contribute", "--table", "people", "--structure", structure, "--to", to, *more, db=db)


def test_update_prints_the_model_and_its_epsilon(batches: Cli) -> None:
    """The new model is named, with its trees, its epsilon and how the batches compose."""
    ran = batches("update", "--model", "jan", "--batch", "2026-02")
    assert ran.code == 0
    assert ran.out.startswith('Model "sales_1": rdt, 2 trees, depth 2, ')
    assert "Epsilon 0.5 (parallel over disjoint batches)." in ran.out


def test_update_as_json_tells_model_and_certificate(batches: Cli) -> None:
    """`--json` gives the model's name and its certificate, and nothing else."""
    words = ("--batch", "2026-02", "--epsilon", "0.25", "--name", "feb", "--json")
    found = batches("update", "--model", "jan", *words).json
    assert set(found) == {"model", "certificate"}
    assert found["model"] == "feb"
    assert found["certificate"]["batches"] == ["2026-01", "2026-02"]
    assert [one["epsilon"] for one in found["certificate"]["updates"]] == [0.5, 0.25]


def test_update_charges_the_new_batch_alone(batches: Cli, path: Path) -> None:
    """After two updates at 0.5 the table has spent 0.5, and the ledger has a scope for each batch."""
    for model, batch in (("jan", "2026-02"), ("sales_1", "2026-03")):
        assert batches("update", "--model", model, "--batch", batch).code == 0
    with connect(path) as db:
        budget = db.budget("sales")
    assert budget.spent_text == "0.5"
    assert [share.name for share in budget.scopes] == [f"month=2026-0{k}" for k in (1, 2, 3)]


def test_update_under_a_request_id_charges_once(batches: Cli) -> None:
    """The second `--request-id r` prints the same model."""
    words = ("update", "--model", "jan", "--batch", "2026-02", "--request-id", "r", "--json")
    assert batches(*words).json == batches(*words).json
    assert len(batches("ledger", "--table", "sales", "--json").json) == 3


def test_show_tells_what_updates_did_to_the_noise(batches: Cli) -> None:
    """`dpsql show` of an updated model has the composition and what a rebuild would gain."""
    batches("update", "--model", "jan", "--batch", "2026-02", "--name", "feb")
    out = batches("show", "--model", "feb").out
    assert "Composition: parallel over disjoint batches\n" in out
    assert "Updates:     2 batches, counted one by one: noise of standard deviation 8 on each count." in out
    assert "would be 5.66 (1.4 times less)" in out


def test_show_of_a_first_batch_tells_of_no_updates(batches: Cli) -> None:
    """A model that was never updated has neither line."""
    ran = batches("show", "--model", "jan")
    assert ran.code == 0
    assert "Composition" not in ran.out
    assert "Updates" not in ran.out


REFUSED = [
    (("--model", "jan", "--batch", "2026-01"), 2),
    (("--model", "m", "--batch", "2026-02"), 2),
    (("--model", "nope", "--batch", "2026-02"), 2),
    (("--model", "jan", "--batch", ""), 2),
    (("--model", "jan"), 2),
    (("--model", "jan", "--batch", "2026-02", "--epsilon", "7"), 3),
    (("--model", "jan", "--batch", "2026-02", "--epsilon", "x"), 2),
]


def test_a_refused_update_changes_nothing(batches: Cli, path: Path) -> None:
    """Wrong usage exits with 2, an exceeded budget with 3, and both files stay as they were."""
    before = kept(path)
    assert [batches("update", *words).code for words, _ in REFUSED] == [code for _, code in REFUSED]
    assert kept(path) == before


def test_training_a_batch_without_a_batch_column_is_wrong_usage(cli: Cli, path: Path) -> None:
    """`train --batch` on a table that declares none exits with 2 and charges nothing."""
    before = kept(path)
    assert cli("train", "--table", "people", "--batch", "a", *RDT).code == 2
    assert kept(path) == before


def test_parties_make_one_model(cli: Cli, path: Path, structure: str) -> None:
    """Export, contribute twice, merge, import, predict: the counts add up, and each ledger has its own charge."""
    files = (path, other_party(path, "b.duckdb"))
    for file, to in zip(files, ("a.json", "b.json"), strict=True):
        assert contribute(cli, structure, to, file, "--epsilon", "0.5").err.endswith(f"Wrote {to}.\n")
    ran = cli("party", "merge", "--from", "a.json", "--from", "b.json", "--to", "all.json", db=None)
    assert ran.code == 0
    assert 'Model "merged": rdt, 2 trees' in ran.out
    assert "Epsilon 0.5 (parallel: " in ran.out
    first, second, merged = (Model.from_json(Path(name)).released.weights for name in ("a.json", "b.json", "all.json"))
    assert (merged == first + second).all()
    assert cli("import", "--from", "all.json").code == 0
    assert cli("predict", "--model", "merged", "--table", "fresh", "--key", "person").code == 0
    assert "Composition: parallel" in cli("show", "--model", "merged").out
    assert [row["epsilon"] for row in cli("ledger", "--json", db=files[1]).json if row["event"] == "reserve"] == [0.5]


def party_in_memory(structure: str) -> Model:
    """Return the contribution of a party in memory."""
    with tables.memory() as opened:
        return opened.contribute("people", Path(structure))


def test_merge_as_json_tells_model_and_certificate(cli: Cli, structure: str) -> None:
    """`--json` gives the model's name and the certificate with all parties."""
    for to in ("a.json", "b.json"):
        model = party_in_memory(structure)
        Path(to).write_text(model.to_json(), encoding="utf-8")
    words = ("--from", "a.json", "--from", "b.json", "--to", "all.json", "--name", "all", "--json")
    found = cli("party", "merge", *words, db=None).json
    assert set(found) == {"model", "certificate"}
    assert (found["model"], len(found["certificate"]["parties"])) == ("all", 2)


def test_parties_with_other_columns_are_united(cli: Cli, path: Path) -> None:
    """`party unite` writes a model of both, whose epsilon is the sum."""
    with connect(path, who="bob") as db:
        tables.run(db.engine, "CREATE TABLE more AS SELECT x AS z, y FROM fresh")
        db.register("more", Schema("y", ("no", "yes", "maybe"), (Numeric("z", 0, 64),)), cap=5)
    for table in ("people", "more"):
        assert cli("train", "--table", table, "--epsilon", "0.5", "--name", table, *RDT).code == 0
        assert cli("export", "--model", table, "--to", f"{table}.json").code == 0
    words = ("--from", "people.json", "--from", "more.json", "--to", "united.json", "--json")
    found = cli("party", "unite", *words, db=None).json
    assert (found["model"], found["certificate"]["epsilon"]) == ("united", 1)
    united = Model.from_json(Path("united.json"))
    assert [feature.name for feature in united.schema.features] == ["c", "x", "z"]


@pytest.mark.parametrize("command", ["export-structure", "contribute", "merge", "unite"])
def test_an_existing_file_is_refused_before_anything_happens(
    cli: Cli, path: Path, structure: str, command: str
) -> None:
    """`--to` must be new: exit 2, the file stays as it was, and nothing is charged."""
    Path("taken.json").write_text("mine")
    before = kept(path)
    words = {
        "export-structure": ("--table", "people", *SMALL),
        "contribute": ("--table", "people", "--structure", structure),
    }.get(command, ("--from", "a.json", "--from", "b.json"))
    db = path if command in ("export-structure", "contribute") else None
    ran = cli("party", command, *words, "--to", "taken.json", db=db)
    assert (ran.code, ran.out, Path("taken.json").read_text()) == (2, "", "mine")
    assert kept(path) == before


def test_exporting_a_structure_changes_no_byte(cli: Cli, path: Path) -> None:
    """The structure is public and free."""
    before = kept(path)
    assert cli("party", "export-structure", "--table", "people", *SMALL, "--to", "s.json").code == 0
    assert kept(path) == before
    assert json.loads(Path("s.json").read_text(encoding="utf-8"))["format"] == "dpsql-structure"


def test_a_structure_without_a_depth_is_wrong_usage(cli: Cli) -> None:
    """Exit 2 with the way out, and no file is written."""
    ran = cli("party", "export-structure", "--table", "people", "--to", "s.json")
    assert ran.code == 2
    assert "--depth" in ran.err
    assert not Path("s.json").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "dpsql-structure", "version": 1}', "\xff"], ids=ascii)
def test_a_damaged_structure_fails_uncharged(cli: Cli, path: Path, text: str) -> None:
    """Whatever the file holds, the command fails with one line of text and charges nothing."""
    Path("s.json").write_text(text, encoding="latin-1")
    before = kept(path)
    ran = contribute(cli, "s.json", "a.json", path)
    assert ran.code in (1, 2)
    assert ran.err.startswith("Error: ")
    assert "Traceback" not in ran.err
    assert kept(path) == before


def test_a_contribution_above_the_cap_is_refused(cli: Cli, path: Path, structure: str) -> None:
    """Exit 3, no file, nothing charged."""
    before = kept(path)
    assert contribute(cli, structure, "a.json", path, "--epsilon", "99").code == 3
    assert not Path("a.json").exists()
    assert kept(path) == before


def test_the_same_contribution_twice_is_refused(cli: Cli, path: Path, structure: str) -> None:
    """A copy of the file is still the same contribution; no model is written."""
    contribute(cli, structure, "a.json", path)
    shutil.copy("a.json", "copy.json")
    ran = cli("party", "merge", "--from", "a.json", "--from", "copy.json", "--to", "all.json", db=None)
    assert ran.code == 2
    assert "given twice" in ran.err
    assert not Path("all.json").exists()


@pytest.mark.parametrize("command", ["merge", "unite"])
def test_a_single_or_missing_file_is_an_error(cli: Cli, path: Path, structure: str, command: str) -> None:
    """One file is not enough, and a file that is not there is named."""
    contribute(cli, structure, "a.json", path)
    assert cli("party", command, "--from", "a.json", "--to", "all.json", db=None).code == 2
    ran = cli("party", command, "--from", "a.json", "--from", "nope.json", "--to", "all.json", db=None)
    assert ran.code in (1, 2)
    assert "nope.json" in ran.err


def test_a_folder_that_is_not_there_is_refused_before_the_charge(cli: Cli, structure: str) -> None:
    """`party contribute --to` checks where it will write before anything is charged."""
    before = cli("ledger", "--json").json
    ran = cli("party", "contribute", "--table", "people", "--structure", structure, "--to", "nowhere/a.json")
    assert ran.code == 2
    assert cli("ledger", "--json").json == before
