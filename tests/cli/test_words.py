"""Words on BOOLEAN columns and runs on no rows, as the command line shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import Database, connect
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.methods.shared import row_evidence
from tests.tables import run

from .conftest import Cli

AGE = ("--numeric", "age:0:100")


@pytest.fixture
def bank(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a table whose yes and no were loaded as BOOLEAN, and one in words."""
    monkeypatch.setattr(row_evidence, "FEW_ROWS", 30)
    monkeypatch.setattr(row_evidence, "DECLARED_SHARE", 0.5)
    database: Database = connect(path)
    run(
        database.engine,
        "CREATE TABLE loaded AS SELECT i % 3 = 0 AS y, i % 2 = 0 AS loan, (i % 100)::DOUBLE AS age "
        "FROM range(3000) AS r(i)",
        "CREATE TABLE typed AS SELECT CASE WHEN y THEN 'Yes' ELSE 'No' END AS y, age FROM loaded",
    )
    database.close()
    return path


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_words_on_a_boolean_are_refused_with_flags_to_paste(cli: Cli, bank: Path, dry_run: tuple[str, ...]) -> None:
    """Exit code 2, the mapping as flags, and no dataset; the flags then work."""
    flags = ("--label", "y", *AGE, "--cap", "3", *dry_run)
    ran = cli("register", "--table", "loaded", "--class", "no", "--class", "yes", *flags)
    assert ran.code == 2
    assert "--class true=yes --class false=no" in ran.err
    with connect(bank) as database:
        assert "loaded" not in registered_datasets(database.book)
    mapped = ("--class", "true=yes", "--class", "false=no", "--categorical", "loan:true=yes,false=no")
    assert cli("register", "--table", "loaded", *mapped, *flags).code == 0


def test_a_file_is_answered_with_its_lines(cli: Cli, bank: Path) -> None:
    """Each problem has the line of the file, also where the file fits itself and not the table."""
    Path("s.yml").write_text("label: y\nclasses: [no, yes]\nfeatures:\n  loan: {type: categorical, values: [a, b]}\n")
    ran = cli("register", "--table", "loaded", "--schema", "s.yml", "--cap", "3")
    assert ran.code == 2
    assert "line 2: the label" in ran.err
    assert 'line 4: feature "loan"' in ran.err


def test_a_comparison_is_a_class(cli: Cli, bank: Path) -> None:
    """`<=50K` holds an = and is no mapping."""
    flags = ("--label", "y", "--class", "<=50K", "--class", ">50K", *AGE, "--cap", "3")
    assert cli("register", "--table", "typed", *flags).code == 0
    with connect(bank) as database:
        assert registered_datasets(database.book)["typed"].schema.classes == ("<=50K", ">50K")


def test_a_run_on_no_rows_stops_with_code_1(cli: Cli, bank: Path) -> None:
    """The wrong letter case: 3 % of epsilon is spent, and the error says so."""
    cli("register", "--table", "typed", "--label", "y", "--class", "no", "--class", "yes", *AGE, "--cap", "50")
    runs = [cli("train", "--table", "typed", "--epsilon", "1") for _ in range(10)]
    stopped = [ran for ran in runs if ran.code == 1]
    assert stopped
    assert "Epsilon 0.03 is spent" in stopped[0].err
    assert "letter case" in stopped[0].err
    assert "--table typed --schema FILE --cap EPSILON --replace" in stopped[0].err


def test_both_entries_are_named(cli: Cli, bank: Path) -> None:
    """The line of the charge says what went into the size and what into training."""
    cli("register", "--table", "typed", "--label", "y", "--class", "No", "--class", "Yes", *AGE, "--cap", "3")
    ran = cli("train", "--table", "typed", "--epsilon", "1")
    assert "0.03 for the size (entry" in ran.out
    assert "its size was bought earlier" in cli("train", "--table", "typed", "--epsilon", "1").out


def test_a_model_of_no_rows_is_shown_with_a_warning(cli: Cli, bank: Path) -> None:
    """Where the size was declared, the released counts tell."""
    words = ("--label", "y", "--class", "no", "--class", "yes")
    cli("register", "--table", "typed", *words, *AGE, "--cap", "500", "--rows", "40000")
    runs = [cli("train", "--table", "typed", "--epsilon", "10", "--method", "rdt") for _ in range(10)]
    assert any("WARNING: about no row was counted" in ran.err for ran in runs)
    assert {ran.code for ran in runs} == {0}
