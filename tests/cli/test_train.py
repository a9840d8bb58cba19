"""`dpsql train` and `dpsql explain`: the plan, the SQL, the charge."""

from __future__ import annotations

import shlex
from decimal import Decimal
from pathlib import Path

import pytest
from sqlglot import exp

from dpsql.api import census
from dpsql.api.database import Database, connect
from dpsql.cli.printing.json_values import plain_numbers
from dpsql.schema import schema_file
from tests import tables

from .conftest import Cli, kept

SMALL = ("--trees", "3", "--depth", "2")
ROSNAM = ("--method", "rosnam", *SMALL)


def files(path: Path) -> dict[str, bytes]:
    """Return every file in the database's folder with its bytes."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_train_needs_no_more_than_file_and_table(cli: Cli) -> None:
    """`dpsql train --db F --table people` trains, names the model and charges epsilon 1."""
    ran = cli("train", "--table", "people")
    assert ran.code == 0
    assert 'Model "people_1": auto, ' in ran.out
    assert 'Budget of "people": 2 of 10 spent, 8 left.' in ran.out


def test_the_next_step_is_a_note(cli: Cli) -> None:
    """What to do next is on stderr, not among the results."""
    ran = cli("train", "--table", "people", *SMALL)
    assert ran.err == f"Next:  dpsql predict --db {Path('data.duckdb').resolve()} --model people_1 --table NEW_ROWS\n"
    assert "Next" not in ran.out


def test_the_next_step_names_the_ledger_too(cli: Cli) -> None:
    """A ledger that is elsewhere has to be named again; what the shell would take apart is quoted."""
    Path("rows of ann").mkdir()
    Path("rows of ann/people.csv").write_text("x,c,y\n1,a,no\n2,b,yes\n")
    Path("people.yml").write_text(schema_file.dump(tables.SCHEMA))
    where = ("--ledger", "books.duckdb", "--table", "people")
    assert cli("register", *where, "--schema", "people.yml", "--cap", "2", db="rows of ann").code == 0
    ran = cli("train", *where, *ROSNAM, db="rows of ann")
    assert "dpsql predict --db 'rows of ann' --ledger books.duckdb --model people_1 --table NEW_ROWS\n" in ran.err


def test_train_as_json_tells_model_budget_and_certificate(cli: Cli) -> None:
    """`--json` gives the model's name, the budget after the run and the certificate in short."""
    found = cli("train", "--table", "people", "--epsilon", "0.5", "--name", "mine", "--json", *SMALL).json
    assert found["model"] == "mine"
    amounts = {"cap": 10, "cap_exact": "10", "spent": 1.5, "spent_exact": "1.5", "left": 8.5, "left_exact": "8.5"}
    assert found["budget"] == {"table": "people", "kind": "pure", **amounts}
    assert found["certificate"]["epsilon"] == 0.5


def test_options_reach_the_method(cli: Cli) -> None:
    """Trees, depth, rule, branches, limit and seed arrive in the plan as they were given."""
    words = (
        "--method",
        "rosnam",
        "--trees",
        "4",
        "--depth",
        "1",
        "--depth-rule",
        "table4",
        "--branches",
        "2",
        "--limit",
        "999",
        "--seed",
        "7",
    )
    model = cli("train", "--table", "people", "--json", *words).json["model"]
    plan = cli("show", "--model", model, "--json").json["certificate"]["plan"]["parameters"]
    wanted = {"trees": 4, "depth": 1, "depth_rule": "table4", "branches": 2, "limit": 999, "seed": 7}
    assert {name: plan[name] for name in wanted} == wanted


def test_the_ledger_carries_the_name_given_with_as(cli: Cli) -> None:
    """`--as` names who is charged; without it the environment variable does."""
    cli("train", "--table", "people", "--as", "eve", *SMALL)
    cli("train", "--table", "people", *SMALL)
    assert [row["who"] for row in cli("ledger", "--json").json][-2:] == ["eve", "bob"]


def test_a_request_id_asked_twice_gives_one_model_and_one_charge(cli: Cli) -> None:
    """The second `--request-id r` prints the same model and spends nothing."""
    once, twice = (cli("train", "--table", "people", "--request-id", "r", "--json", *SMALL).json for _ in range(2))
    assert once == twice
    assert once["budget"]["spent"] == 2


@pytest.mark.parametrize("form", [(), ("--json",), ("--sql",), ("--sql", "--json")], ids=" ".join)
def test_a_dry_run_changes_not_one_byte(cli: Cli, path: Path, form: tuple[str, ...]) -> None:
    """After `--dry-run` or `--sql` every file in the folder is as it was."""
    before = files(path)
    words = form if "--sql" in form else (*form, "--dry-run")
    assert cli("train", "--table", "people", *words).code == 0
    assert files(path) == before


def test_a_dry_run_tells_cost_noise_scans_and_budget(cli: Cli) -> None:
    """The plan has each step's epsilon, noise scale, scans and error, and the budget before and after."""
    ran = cli("train", "--table", "people", "--method", "rosnam", "--epsilon", "0.25", "--dry-run")
    assert ran.out.startswith("Plan of rosnam: epsilon 0.25 in all, add or remove one row.")
    for word in ("noise scale", "scans", "expected error", "leaf_labels", "1 of 10 spent before", "1.25 spent."):
        assert word in ran.out
    assert ran.err == "Nothing was read and nothing was charged.\n"


def test_a_dry_run_of_the_default_says_what_is_planned_later(cli: Cli) -> None:
    """Without a declared size the default buys it, and plans the rest from the answer: no noise scale is made up."""
    ran = cli("train", "--table", "people", "--epsilon", "0.25", "--dry-run")
    assert ran.out.startswith("Plan of auto: epsilon 0.25 in all, add or remove one row.")
    rest = next(line for line in ran.out.splitlines() if line.startswith("rest "))
    assert [word.strip() for word in rest.split("│")][1:4] == ["later", "0.2425", "–"]
    for word in ("size", "known once the step before it has answered", "1 of 10 spent before", "1.25 spent."):
        assert word in ran.out


def test_a_dry_run_equals_the_plan_in_python(cli: Cli, path: Path) -> None:
    """`--dry-run --json` holds what `db.plan(...)` returns."""
    ran = cli("train", "--table", "people", "--epsilon", "0.5", "--dry-run", "--json", *SMALL).json
    with connect(path) as opened:
        plan = opened.plan("people", epsilon=0.5, trees=3, depth=2)
    assert ran["plan"] == plain_numbers(plan.to_dict())
    assert (ran["epsilon"], ran["fits"], ran["budget"]["spent"]) == (0.5, True, 1)


def test_a_dry_run_that_does_not_fit_is_refused_as_the_run_would_be(cli: Cli) -> None:
    """The plan is shown, and the exit code is 3."""
    ran = cli("train", "--table", "people", "--epsilon", "99", "--dry-run")
    assert ran.code == 3
    assert "This run would be refused." in ran.out
    assert "needs epsilon 99" in ran.err


def test_the_sql_is_the_statement_that_explain_shows(cli: Cli, path: Path) -> None:
    """`train --sql`, `explain --json` and `db.explain` have the same statement."""
    printed = cli("train", "--table", "people", "--sql", *ROSNAM).out
    explained = cli("explain", "--table", "people", "--leaf", "5", "--json", *ROSNAM).json
    with connect(path) as opened:
        twin = opened.explain("people", leaf=5, method="rosnam", trees=3, depth=2)
    assert printed == explained["statement_sql"] + "\n"
    assert explained == twin.to_dict()


def test_explain_shows_a_leaf_beside_the_statement(cli: Cli) -> None:
    """The readable form has WHERE and GROUP BY for one leaf; the other counts all leaves in one scan."""
    ran = cli("explain", "--table", "people", "--leaf", "3", *ROSNAM)
    assert ran.code == 0
    leaf, statement = ran.out.split("-- All leaves of all trees")
    assert leaf.startswith("-- Leaf 3")
    assert "WHERE" in leaf
    assert "GROUP BY" in leaf
    assert statement.count('FROM "main"."people"') == 1


def test_explain_changes_nothing(cli: Cli, path: Path) -> None:
    """Explaining is free and leaves every byte."""
    before = files(path)
    assert cli("explain", "--table", "people").code == 0
    assert files(path) == before


def test_as_published_is_refused_under_a_cap(cli: Cli, path: Path) -> None:
    """The unproven form exits with 3 and leaves no trace."""
    before = kept(path)
    ran = cli("train", "--table", "people", "--method", "rosnam", "--as-published")
    assert ran.code == 3
    assert "not differentially private" in ran.err
    assert kept(path) == before


def test_as_published_on_public_data_says_that_it_is_not_private(cli: Cli) -> None:
    """Without a cap it runs, and the output says NOT private."""
    flags = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64")
    assert cli("register", "--table", "fresh", "--no-cap", *flags).code == 0
    ran = cli("train", "--table", "fresh", "--as-published", *ROSNAM)
    assert ran.code == 0
    assert "NOT differentially private" in ran.out


def test_training_from_python_is_the_same(cli: Cli, db: Database) -> None:
    """`db.train` in the words of the command gives a model of the same plan and shape."""
    twin = db.train("people", epsilon=0.5, method="rdt", trees=3, depth=2, seed=4)
    db.close()
    asked = ("--table", "people", "--epsilon", "0.5", "--method", "rdt", "--seed", "4")
    model = cli("train", *asked, "--json", *SMALL).json["model"]
    found = cli("show", "--model", model, "--json").json
    assert found["certificate"]["plan"] == twin.certificate["plan"]
    assert found["certificate"].keys() == twin.certificate.keys()


def test_a_plan_that_waits_for_a_size_shows_likely_ones(cli: Cli, db: Database) -> None:
    """Where the size is still to be bought, the steps are shown at three sizes; where it is known, once."""
    ran = cli("train", "--table", "people", "--dry-run")
    assert ran.code == 0
    assert all(f"{rows} rows" in ran.out for rows in (1000, 10000, 100000))
    assert "marginals" in ran.out
    by_size = cli("train", "--table", "people", "--dry-run", "--json").json["by_size"]
    assert [each["rows"] for each in by_size] == [1000, 10000, 100000]
    spent = [sum(Decimal(step["epsilon_exact"]) for step in each["plan"]["steps"]) for each in by_size]
    assert spent == [Decimal("0.97")] * 3
    db.advise("people", buy="1")
    db.close()
    assert "1000 rows" not in cli("train", "--table", "people", "--dry-run").out
    assert "by_size" not in cli("train", "--table", "people", "--dry-run", "--json").json


def test_train_says_how_good_the_model_is_likely_to_be(cli: Cli, path: Path) -> None:
    """What its own counts suggest and what it costs to know are results; the command that measures it is a note."""
    with connect(path) as opened:
        opened.engine.create("census", exp.select("*").from_("batch"), {"batch": census.rows(4000, 3)})
        opened.register("census", census.SCHEMA, cap=9, holdout="20%")
    ran = cli("train", "--table", "census", "--epsilon", "4", "--name", "told")
    assert ran.code == 0, ran.err
    assert "Likely: its own noisy counts suggest an accuracy of" in ran.out
    assert 'of "census:holdout" (9 left) for the accuracy to about ±' in ran.out
    [command] = [line for line in ran.err.splitlines() if line.startswith("Measure it:  dpsql evaluate --db")]
    words = shlex.split(command.removeprefix("Measure it:  dpsql "))
    assert cli(*words[:1], *words[3:]).code == 0
    measured = cli("train", "--table", "census", "--epsilon", "1", "--evaluate", "1")
    assert "Measured:" in measured.out
    assert "Likely:" not in measured.out
    assert "To know:" not in measured.out
