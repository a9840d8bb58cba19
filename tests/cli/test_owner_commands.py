"""`dpsql register`, `schema draft`, `budget` and `add-ids`: the owner's acts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.schema import schema_file
from tests import tables

from .conftest import Cli, kept

FLAGS = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64", "--categorical", "c:a,b")


def test_register_from_a_file(cli: Cli, path: Path) -> None:
    """A YAML schema and a cap make a dataset with its budget."""
    Path("fresh.yml").write_text(schema_file.dump(tables.SCHEMA))
    ran = cli("register", "--table", "fresh", "--schema", "fresh.yml", "--cap", "3")
    assert ran.code == 0
    assert ran.out.startswith('Registered "fresh" as dataset fresh-')
    assert "Cap 3, spent 0, left 3." in ran.out
    assert ran.err == "Next:  dpsql train --db " + str(path) + " --table fresh --dry-run\n"


def test_register_from_flags_equals_register_from_python(cli: Cli, path: Path, tmp_path: Path) -> None:
    """Flags say the same as a mapping in Python."""
    cli("register", "--table", "fresh", "--cap", "2", *FLAGS, "--unit", "person:3", "--rows", "50")
    declared = {
        "label": "y",
        "classes": ["no", "yes"],
        "privacy_unit": {"column": "person", "max_rows": 3},
        "rows": 50,
        "features": {
            "x": {"type": "numeric", "lower": 0, "upper": 64},
            "c": {"type": "categorical", "values": ["a", "b"]},
        },
    }
    with connect(path) as opened:
        stored = registered_datasets(opened.book)["fresh"].schema
        twin = opened.register("fresh", declared, cap=2, replace=True)
    assert stored == twin.schema


def test_register_as_json(cli: Cli) -> None:
    """`--json` gives dataset, table, cap and spent."""
    found = cli("register", "--table", "fresh", "--cap", "2", *FLAGS, "--json").json
    assert found["table"] == "fresh"
    assert (found["cap"], found["spent"]) == (2, 0)


def test_a_dry_run_shows_the_schema_and_registers_nothing(cli: Cli, path: Path) -> None:
    """The schema comes out as a file that can be registered, and the ledger stays as it was."""
    before = kept(path)
    ran = cli("register", "--table", "fresh", "--cap", "2", *FLAGS, "--dry-run")
    assert ran.code == 0
    assert schema_file.loads(ran.out).label == "y"
    assert kept(path) == before


def test_a_dry_run_checks_the_table(cli: Cli) -> None:
    """A dry run refuses what registering would refuse."""
    ran = cli("register", "--table", "fresh", "--cap", "2", *FLAGS, "--numeric", "weight:0:1", "--dry-run")
    assert ran.code == 2
    assert 'called "weight"' in ran.err


def test_replace_keeps_what_is_spent(cli: Cli) -> None:
    """A new schema and cap do not give budget back."""
    ran = cli("register", "--table", "people", "--cap", "5", *FLAGS, "--replace", "--json").json
    assert (ran["cap"], ran["spent"]) == (5, 1)


def test_registering_twice_is_refused(cli: Cli, path: Path) -> None:
    """Without --replace a registered table keeps its one budget."""
    before = kept(path)
    ran = cli("register", "--table", "people", "--cap", "5", *FLAGS)
    assert ran.code == 2
    assert "already registered" in ran.err
    assert kept(path) == before


def test_draft_proposes_from_the_catalog(cli: Cli, path: Path) -> None:
    """The draft names every column, leaves ??? for what only rows could tell, and is what `db.draft` returns."""
    ran = cli("schema", "draft", "--table", "people", "--label", "y")
    with connect(path) as opened:
        assert ran.out == opened.draft("people", label="y").text + "\n"
    assert "???" in ran.out


def test_draft_writes_a_new_file(cli: Cli) -> None:
    """`--to` writes the file and says so on stderr."""
    ran = cli("schema", "draft", "--table", "people", "--to", "people.yml")
    assert (ran.code, ran.out) == (0, "")
    assert "Wrote people.yml." in ran.err
    assert "???" in Path("people.yml").read_text()


def test_budget_shows_all_tables(cli: Cli) -> None:
    """The table has cap, spent and left of each dataset and what each analyst spent."""
    ran = cli("budget")
    assert ran.code == 0
    assert [word.strip() for word in ran.out.splitlines()[2].split("│")] == ["people", "pure", "", "10", "1", "9"]
    assert [word.strip() for word in ran.out.splitlines()[3].split("│")] == ["", "", "ann", "no cap", "1", "9"]


def test_budget_equals_its_python_twin(cli: Cli, path: Path) -> None:
    """`budget --json` holds what `db.budget` returns."""
    [found] = cli("budget", "--table", "people", "--json").json
    with connect(path) as opened:
        budget = opened.budget("people")
    assert found["dataset"] == budget.dataset
    assert (found["cap_exact"], found["spent_exact"], found["left_exact"]) == (
        budget.cap_text,
        budget.spent_text,
        budget.left_text,
    )


def test_set_cap_changes_the_cap_and_is_an_entry(cli: Cli) -> None:
    """The owner's act is in the ledger under the owner's name."""
    [found] = cli("budget", "--table", "people", "--set-cap", "5", "--json").json
    last = cli("ledger", "--json").json[-1]
    assert found["cap"] == 5
    assert (last["event"], last["who"], last["cap"]) == ("cap", "bob", 5)


def test_an_analysts_cap_binds_that_analyst(cli: Cli) -> None:
    """With a cap of 0.5 of her own, eve may not spend 1; bob may."""
    cli("budget", "--table", "people", "--set-cap", "0.5", "--analyst", "eve")
    small = ("--trees", "1", "--depth", "1")
    eve = cli("train", "--table", "people", "--as", "eve", *small)
    assert eve.code == 3
    assert 'analyst "eve"' in eve.err
    assert cli("train", "--table", "people", "--as", "bob", *small).code == 0


def test_add_ids_gives_a_column_of_distinct_ids(cli: Cli, path: Path) -> None:
    """Every row of the table gets an id of its own."""
    ran = cli("add-ids", "--table", "fresh", "--column", "key")
    assert ran.code == 0
    with connect(path) as opened:
        [row] = tables.rows_of(opened.engine, "SELECT count(*) AS n, count(DISTINCT key) AS keys FROM fresh")
    assert row["n"] == row["keys"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--schema", "none.yml"), "there is no schema file"),
        (("--schema", "."), "not a schema file"),
        (("--schema", "data.duckdb"), "must end in .yml"),
        (("--schema", "broken.yml"), "cannot be read as YAML"),
        (("--schema", "draft.yml"), "placeholder ???"),
        (("--schema", "broken.yml", "--label", "y"), "not both"),
        (("--schema", "broken.json"), "is not JSON"),
        ((*FLAGS, "--entry", "x"), "--entry picks"),
        (("--label", "y"), "a schema is needed"),
        ((*FLAGS, "--numeric", "x"), "NAME:LOWER:UPPER"),
        ((*FLAGS, "--numeric", "w:low:1"), "a bound must be a number"),
        ((*FLAGS, "--numeric", "w:2:1"), "must be below upper"),
        ((*FLAGS, "--numeric", "w:0:1e999"), "finite"),
        ((*FLAGS, "--unit", "person:many"), "whole number"),
        ((*FLAGS, "--unit", "person:inf"), "whole number"),
        ((*FLAGS, "--unit", "person:0"), "max_rows"),
        ((*FLAGS, "--class", "no"), "listed twice"),
        ((*FLAGS, "--boolean", "c"), 'feature "c" is given twice'),
        ((*FLAGS, "--rows", "-5"), "rows"),
        ((*FLAGS, "--rows", "many"), "not a valid integer"),
        ((*FLAGS, "--numeric", "y:0:1"), "also listed as a feature"),
        (("--label", "z", *FLAGS[2:]), 'called "z"'),
        ((*FLAGS, "--boolean", "person"), "must be boolean"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_a_bad_schema_has_its_own_message(cli: Cli, path: Path, words: tuple[str, ...], message: str) -> None:
    """What is wrong with a schema is said, with exit code 2, and nothing is registered."""
    Path("broken.yml").write_text("label: [y\n")
    Path("broken.json").write_text("{")
    Path("draft.yml").write_text("label: y\nclasses: [a, b]\nfeatures:\n  x:\n    type: numeric\n    lower: ???\n")
    before = kept(path)
    ran = cli("register", "--table", "fresh", "--cap", "1", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""
    assert kept(path) == before
