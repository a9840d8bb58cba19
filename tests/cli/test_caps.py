"""What is said when a cap or an epsilon is set: odds above 10, `--yes` above 20, whose cap it is, if a run fits."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import UsageError
from dpsql.ledger.amount import NANO
from dpsql.ledger.odds import LargeEpsilonWarning, note_large, odds_text
from dpsql.schema import schema_file
from tests import tables

from .conftest import Cli

pytestmark = pytest.mark.usefixtures("caps_in_words")
SMALL = ("--method", "rdt", "--trees", "1", "--depth", "1")
#: Each act that sets an amount, up to the amount.
ACTS = {
    "cap": ("budget", "--table", "people", "--set-cap"),
    "analyst": ("budget", "--table", "people", "--analyst", "eve", "--set-cap"),
    "register": ("register", "--table", "people", "--schema", "people.yml", "--replace", "--cap"),
    "train": ("train", "--table", "people", *SMALL, "--epsilon"),
}


@pytest.fixture(autouse=True)
def schema(cli: Cli) -> None:
    """Write the schema of the table beside it, and leave room for a large run."""
    Path("people.yml").write_text(schema_file.dump(tables.SCHEMA))
    assert cli("budget", "--table", "people", "--set-cap", "200", "--yes").code == 0


@pytest.mark.parametrize("act", ACTS)
def test_above_10_the_odds_are_said(cli: Cli, act: str) -> None:
    """An amount of 12 is taken, with a warning on stderr that has the factor; 10 is taken without a word."""
    ran = cli(*ACTS[act], "12")
    assert ran.code == 0
    assert (
        'on "people": an attacker\'s odds about one person can rise by a factor e^12, from 1:1 to 162755:1.' in ran.err
    )
    assert "attacker" not in ran.out
    assert "attacker" not in cli(*ACTS[act], "10").err


@pytest.mark.parametrize("act", ACTS)
def test_above_20_it_must_be_meant(cli: Cli, act: str) -> None:
    """An amount of 50 is refused with exit code 2 and nothing changes; with --yes it is taken without a word."""
    before = cli("ledger", "--json").json
    ran = cli(*ACTS[act], "50")
    assert (ran.code, ran.out) == (2, "")
    assert "from 1:1 to 5.2e21:1. That is no protection worth the name." in ran.err
    assert "--yes" in ran.err
    assert cli("ledger", "--json").json == before
    meant = cli(*ACTS[act], "50", "--yes")
    assert (meant.code, "attacker" in meant.err) == (0, False)


def test_python_warns_and_refuses_too() -> None:
    """The same in Python: a warning above 10, an error above 20 unless it is meant; public data is never asked."""
    with tables.memory([(1, 1.0, "a", "no")], cap=10) as database:
        with pytest.warns(LargeEpsilonWarning, match="e\\^15"):
            database.set_cap("people", 15)
        with pytest.raises(UsageError, match="e\\^25"):
            database.train("people", epsilon=25)
        with pytest.raises(UsageError, match="e\\^21"):
            database.set_cap("people", 21, kind="approximate", delta="1e-6")
        database.set_cap("people", 100, allow_large=True)
        database.train("people", epsilon=25, method="rdt", trees=1, depth=1, allow_large=True)
    with tables.memory([(1, 1.0, "a", "no")], cap=None) as public:
        public.train("people", epsilon=1000, method="rdt", trees=1, depth=1)


def test_the_limits_are_exact() -> None:
    """10 and 20 themselves pass; a billionth more is warned of, or refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_large("cap", 10 * NANO, allow_large=False)
        note_large("cap", None, allow_large=False)
    with pytest.warns(LargeEpsilonWarning):
        note_large("cap", 20 * NANO, allow_large=False)
    with pytest.raises(UsageError):
        note_large("cap", 20 * NANO + 1, allow_large=False)
    assert odds_text(10**9 * NANO).endswith(":1")


def test_a_cap_at_what_is_spent_is_told(cli: Cli) -> None:
    """Epsilon 1 is spent: a cap of 1 or less leaves no run, and a cap of 2 is taken without a word."""
    for cap in ("1", "0.5"):
        ran = cli("budget", "--table", "people", "--set-cap", cap)
        assert (ran.code, f'Already spent 1 on "people": no run will fit under a cap of {cap}.' in ran.err) == (0, True)
    assert "Already" not in cli("budget", "--table", "people", "--set-cap", "2").err
    ran = cli("budget", "--table", "people", "--set-cap", "0.5", "--analyst", "ann")
    assert 'Already spent 1 on "people" by ann: no run will fit under a cap of 0.5.' in ran.err


def test_the_ledger_says_whose_cap_was_set(cli: Cli) -> None:
    """In the table, in CSV, in JSON and in SQL a cap has the analyst's name; the table's own has none."""
    cli("budget", "--table", "people", "--set-cap", "0.3", "--analyst", "alice")
    cli("budget", "--table", "people", "--set-cap", "0.2", "--default-analyst")
    shown = cli("ledger").out
    assert "0.3 for alice" in shown
    assert "0.2 for all others" in shown
    pairs = [(row["cap"], row["analyst"]) for row in cli("ledger", "--json").json if row["event"] == "cap"]
    assert pairs == [(200, None), (0.3, "alice"), (0.2, "*")]
    listed = list(csv.DictReader(io.StringIO(cli("ledger", "--csv").out)))
    listed = [row for row in listed if row["event"] == "cap"]
    assert [(row["cap"], row["analyst"]) for row in listed] == [("200", ""), ("0.3", "alice"), ("0.2", "*")]
    asked = cli("shell", "-c", "SELECT cap, analyst FROM dpsql_ledger() WHERE event = 'cap'", "--json").json
    assert [row[1] for row in asked[0]["rows"]] == ["", "alice", "*"]


def test_an_analysts_name_is_a_claim(cli: Cli) -> None:
    """Whoever gives an analyst a cap in a file is told that a name is no login; others are not."""
    ran = cli("budget", "--table", "people", "--set-cap", "1", "--analyst", "eve")
    assert "--as is a claim, not a login" in ran.err
    assert "--as is a claim" in cli("budget", "--table", "people", "--set-cap", "1", "--default-analyst").err
    assert "claim" not in cli("budget", "--table", "people", "--set-cap", "9").err


def test_the_budget_shows_what_each_analyst_has_left(cli: Cli) -> None:
    """Without a cap of their own an analyst has left what the table has; the cap of all others is a line of its own."""
    cli("budget", "--table", "people", "--set-cap", "3")
    (budget,) = cli("budget", "--table", "people", "--json").json
    (share,) = budget["analysts"]
    assert (share["analyst"], share["cap"], share["spent"], share["left"]) == ("ann", None, 1, 2)
    assert budget["default_analyst_cap"] is None
    cli("budget", "--table", "people", "--set-cap", "1.5", "--default-analyst")
    (budget,) = cli("budget", "--table", "people", "--json").json
    assert (budget["default_analyst_cap"], budget["analysts"][0]["left"]) == (1.5, 0.5)
    assert "all others" in cli("budget").out
    assert budget["analysts"][0]["cap"] == 1.5
    assert "1.5 (all others)" in " ".join(cli("budget").out.split())


def test_a_cap_of_all_others_below_what_one_has_spent_is_told(cli: Cli) -> None:
    """Ann has spent 1 and has no cap of her own: 0.5 for all others leaves her no run; her own cap would."""
    told = 'Already spent 1 on "people" by ann: no run will fit under a cap of 0.5.'
    assert told in cli("budget", "--table", "people", "--set-cap", "0.5", "--default-analyst").err
    cli("budget", "--table", "people", "--set-cap", "2", "--analyst", "ann")
    assert "Already" not in cli("budget", "--table", "people", "--set-cap", "0.5", "--default-analyst").err


def test_a_dry_run_warns_of_a_large_epsilon(cli: Cli) -> None:
    """As the run itself does: a warning above 10, a refusal above 20 without --yes."""
    cli("budget", "--table", "people", "--set-cap", "100", "--yes")
    words = ("train", "--table", "people", "--method", "rdt", "--dry-run", "--epsilon")
    assert "Warning: epsilon 12" in cli(*words, "12").err
    assert cli(*words, "25").code == 2
    assert cli(*words, "25", "--yes").code == 0


@pytest.mark.parametrize(("unit", "is_told"), [((), True), (("--unit", "k:2"), False)], ids=["row", "unit"])
def test_a_hold_out_of_rows_says_what_an_edit_does(cli: Cli, unit: tuple[str, ...], is_told: bool) -> None:
    """A row is dealt out by what stands in it, a unit by a column that stays."""
    with connect("edited.duckdb", create=True) as db:
        tables.run(db.engine, "CREATE TABLE people (k INTEGER, age INTEGER, y BOOLEAN)")
    words = ("register", "--table", "people", "--label", "y", "--class", "true", "--class", "false", "--cap", "1")
    ran = cli(*words, "--numeric", "age:0:90", "--holdout", "10%", *unit, db="edited.duckdb")
    assert (ran.code, "one that is edited may change sides" in ran.err) == (0, is_told)


def test_a_hold_out_from_the_command_line(cli: Cli) -> None:
    """Register with a share, train with an evaluation, see both budgets; the model keeps its figures."""
    tables_file = Path("other.duckdb")
    with tables.on_disk(tables_file, [(k, float(k % 60), "ab"[k % 2], "no") for k in range(300)], cap=3):
        pass
    where = {"db": "other.duckdb"}
    words = ("register", "--table", "people", "--schema", "people.yml", "--cap", "3", "--replace", "--holdout", "20%")
    ran = cli(*words, "--holdout-cap", "1", **where)
    assert 'Hold-out: "people:holdout", 20 % of the units, with a cap of 1.' in ran.out
    ran = cli("train", "--table", "people", *SMALL, "--evaluate", "0.4", "--name", "m", **where)
    assert "Measured: " in ran.out
    assert 'Budget of "people:holdout": 0.4 of 1 spent, 0.6 left.' in ran.out
    shown = cli("show", "--model", "m", "--json", **where).json["certificate"]["evaluations"]
    assert [(summary["table"], summary["epsilon"]) for summary in shown] == [("people:holdout", "0.4")]
    assert "Measured:    " in cli("show", "--model", "m", **where).out
    dry = cli("train", "--table", "people", *SMALL, "--evaluate", "0.7", "--dry-run", **where)
    assert (dry.code, "people:holdout" in dry.err) == (3, True)
    ran = cli("evaluate", "--model", "m", "--table", "people", "--epsilon", "0.1", **where)
    assert '"m" was trained on "people": it is measured on the hold-out, "people:holdout", which pays.' in ran.err
    spent = {budget["table"]: budget["spent"] for budget in cli("budget", "--table", "people", "--json", **where).json}
    assert spent == {"people": 1, "people:holdout": 0.5}
    trained = cli("train", "--table", "people", *SMALL, "--evaluate", "0.2", "--json", **where).json
    assert (trained["evaluation"]["epsilon"], trained["holdout_budget"]["left"]) == (0.2, 0.3)
    assert cli("train", "--table", "people:holdout", **where).code == 2
