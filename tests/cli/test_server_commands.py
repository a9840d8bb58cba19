"""The commands for whoever keeps the database: roles on a server, and a look at its health."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.servers import fresh_database


def test_a_server_is_prepared_and_found_well(cli: Cli) -> None:
    """Roles are made and named; the doctor then finds what is there, and what to mend."""
    url = fresh_database()
    ran = cli("init", "--owner", "keeper", "--analyst", "readers", "--json", db=url)
    assert (ran.code, json.loads(ran.out)) == (
        0,
        {"owner": "keeper", "analyst": "readers", "plpython": False, "statistics": True, "warnings": []},
    )
    seen = cli("doctor", db=url)
    assert seen.code == 4  # the tests' own server does not sync, and is asked as a superuser
    assert "ok    schema" in seen.out
    assert "fix: connect as the owner role" in seen.out


def test_a_file_has_no_roles(cli: Cli) -> None:
    """The error says whose a file is."""
    ran = cli("init")
    assert (ran.code, "who holds a file owns it" in ran.err) == (2, True)


def test_a_broken_ledger_is_found(cli: Cli) -> None:
    """A changed budget row is told, with the fix, by the exit code too."""
    cli("shell", "-c", "UPDATE dpsql.budget SET spent = spent + 1")
    ran = cli("doctor")
    assert ran.code == 4
    assert "LOOK  ledger" in ran.out
    assert "fix: dpsql ledger verify" in ran.out


@pytest.mark.parametrize("statement", ["ALTER TABLE people DROP COLUMN x", "DROP TABLE people"])
def test_a_changed_table_is_found(cli: Cli, statement: str) -> None:
    """A registered table that is not as it was is named."""
    cli("shell", "-c", statement)
    ran = cli("doctor")
    assert (ran.code, "LOOK  table people" in ran.out) == (4, True)
