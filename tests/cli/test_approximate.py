"""`--delta`: the owner opens a budget, an analyst plans and trains, the ledger shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Cli, kept

SMALL = ("--table", "people", "--method", "rdt", "--trees", "3", "--depth", "2")
OPEN = ("budget", "--table", "people", "--set-cap", "3", "--kind", "approximate", "--delta", "1e-6")


@pytest.mark.parametrize("flags", [(), ("--dry-run",)], ids=["train", "dry run"])
def test_a_run_with_a_delta_is_refused_by_default(cli: Cli, path: Path, flags: tuple[str, ...]) -> None:
    """Pure epsilon alone is open: exit code 3, the next step, and no trace."""
    before = kept(path)
    ran = cli("train", *SMALL, "--delta", "1e-6", *flags)
    assert ran.code == 3
    assert "needs rho 0.02435597" in ran.err
    assert f"leave out --delta, or as owner: dpsql budget --db {path} --table people --kind approximate" in ran.err
    assert kept(path) == before


def test_the_owner_opens_and_an_analyst_trains(cli: Cli) -> None:
    """The cap is shown in rho and epsilon, the run says what it charged, the ledger lists both with their delta."""
    assert "rho 0.18506984 (epsilon 3)" in cli(*OPEN).out
    ran = cli("train", *SMALL, "--delta", "1e-6")
    assert ran.code == 0
    assert "Charged rho 0.02435597: epsilon 1, delta 1e-6 (add or remove one row)." in ran.out
    assert "rho 0.02435597 (epsilon 1) of rho 0.18506984 (epsilon 3) spent" in ran.out
    listed = cli("ledger").out
    assert "3, delta 1e-6" in listed
    assert "1, delta 1e-6" in listed
    assert cli("ledger", "verify").code == 0


def test_a_dry_run_tells_rho_and_deviation(cli: Cli, path: Path) -> None:
    """The plan shows each step's rho and deviation, what is left after the run, and where pure epsilon does better."""
    cli(*OPEN)
    before = kept(path)
    ran = cli("train", *SMALL, "--delta", "1e-6", "--dry-run")
    assert ran.code == 0
    assert ran.out.startswith("Plan of rdt: epsilon 1, delta 1e-6 (rho 0.02435597) in all")
    assert "standard deviation 7.85 rows per count" in ran.out
    assert "After this run: rho 0.02435597 (epsilon 1) spent." in ran.out
    assert "counts: without --delta its noise would be smaller (scale 3 instead of 5.549)." in ran.err
    many = cli("train", "--table", "people", "--method", "rdt", "--trees", "50", "--delta", "1e-6", "--dry-run")
    assert "counts: without" not in many.err
    assert kept(path) == before


def test_json_has_the_same_figures(cli: Cli) -> None:
    """Plan, budget and certificate give epsilon, delta and rho as decimal text."""
    cli(*OPEN)
    planned = cli("train", *SMALL, "--delta", "1e-6", "--dry-run", "--json").json
    assert (planned["epsilon"], planned["delta"], planned["rho"]) == (1, 1e-6, 0.02435597)
    assert planned["plan"]["steps"][0]["deviation"] == pytest.approx(7.85, abs=0.01)
    trained = cli("train", *SMALL, "--delta", "1e-6", "--json").json
    assert trained["certificate"]["rho"] == trained["budget"]["spent"] == 0.02435597
    [found] = cli("budget", "--table", "people", "--kind", "approximate", "--json").json
    assert (found["cap"], found["delta"]) == (0.18506984, 1e-6)
    assert [found["epsilon"][name] for name in ("cap", "spent", "left")] == [3, 1, 2.776]


@pytest.mark.parametrize("delta", ["0", "1", "0.01", "nan", "x", "-1e-6", ""])
def test_a_bad_delta_is_wrong_usage(cli: Cli, path: Path, delta: str) -> None:
    """What is no delta is refused with exit code 2, by train and by budget, and changes nothing."""
    before = kept(path)
    assert cli("train", *SMALL, "--delta", delta).code == 2
    assert cli(*OPEN[:-1], delta).code == 2
    assert kept(path) == before


def test_a_cap_with_a_delta_needs_its_kind(cli: Cli) -> None:
    """`--delta` is for kind approximate, and for setting a cap."""
    assert cli("budget", "--table", "people", "--set-cap", "3", "--delta", "1e-6").code == 2
    assert cli("budget", "--table", "people", "--delta", "1e-6").code == 2


def test_the_sql_of_a_run_with_a_delta(cli: Cli) -> None:
    """`explain` and `--sql` take a delta: the statements are those of the same trees."""
    plain, with_delta = (cli("train", *SMALL, *delta, "--sql").out for delta in ((), ("--delta", "1e-6")))
    assert plain == with_delta
    assert cli("explain", *SMALL, "--delta", "1e-6").code == 0
