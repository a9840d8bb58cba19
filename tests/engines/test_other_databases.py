"""What dpsql does not open: it says what is possible instead, and never shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.cli.main import run_command_line
from dpsql.compile.predict.dialects import DIALECTS
from dpsql.engines.open_engine import open_engine, show_target
from dpsql.engines.other_databases import url_refusal
from dpsql.errors import DatabaseError, DpsqlError, UsageError

SECRET = "pa55word"
#: URLs of databases that dpsql does not open, each with a word of what it says.
URLS = {
    "mysql": "MySQL", "mysql+pymysql": "MySQL", "mariadb": "MariaDB", "snowflake": "Snowflake",
    "bigquery": "BigQuery", "mssql": "SQL Server", "oracle": "Oracle", "redshift": "Redshift", "trino": "Trino",
    "sqlite": "SQLite", "duckdb": "DuckDB", "https": "web", "s3": "storage", "nobody-knows": "such URLs",
    "jdbc:mysql": "MySQL", "jdbc:postgresql": "PostgreSQL", "postgresql+asyncpg": "PostgreSQL",
}  # fmt: skip
#: Files that dpsql does not open: name, first bytes, a word of what it says.
FILES = [
    ("people.xlsx", b"PK\x03\x04", "Excel"),
    ("people.feather", b"ARROW1\x00\x00", "Arrow"),
    ("people.db", b"ARROW1\x00\x00", "Arrow"),
    ("people.jsonl", b"{}\n", "JSON"),
    ("people.orc", b"ORC", "ORC"),
    ("people.csv.gz", b"\x1f\x8b", "compressed"),
    ("people", b"PAR1", "Parquet"),
]


@pytest.mark.parametrize("scheme", sorted(URLS))
def test_a_url_of_another_database_says_what_is_possible(scheme: str) -> None:
    """The error names the database and a next step, and holds neither password nor host."""
    with pytest.raises(UsageError) as caught:
        open_engine(f"{scheme}://ann:{SECRET}@host/data")
    assert URLS[scheme] in caught.value.message
    assert caught.value.hint
    assert SECRET not in str(caught.value)
    assert "host/" not in caught.value.message
    assert SECRET not in show_target(f"{scheme}://ann:{SECRET}@host/data")


def test_every_dialect_that_is_offered_exists() -> None:
    """Where scoring is said to work, `dpsql export` knows the dialect."""
    for scheme in URLS:
        refusal = url_refusal(f"{scheme}://host/data")
        assert refusal is not None
        assert refusal.hint is not None
        if "--dialect" in refusal.hint:
            assert refusal.hint.split("--dialect ")[1].split()[0] in DIALECTS


@pytest.mark.parametrize(("name", "start", "word"), FILES)
def test_a_file_of_another_kind_says_what_is_possible(tmp_path: Path, name: str, start: bytes, word: str) -> None:
    """By its first bytes or its ending the file is called what it is, with the next step."""
    (tmp_path / name).write_bytes(start + b"\x00" * 100)
    with pytest.raises(UsageError, match=word) as caught:
        open_engine(tmp_path / name)
    assert caught.value.hint


def test_a_database_is_opened_whatever_its_ending(tmp_path: Path) -> None:
    """A DuckDB file that is called like another kind of file is a DuckDB file."""
    open_engine(tmp_path / "data.json", create=True).close()
    open_engine(tmp_path / "data.json").close()


def test_a_folder_without_tables_says_what_it_holds(tmp_path: Path) -> None:
    """What lies there is named by its kind alone."""
    (tmp_path / "secret-name.xlsx").write_bytes(b"PK")
    with pytest.raises(DatabaseError, match="an Excel file, which dpsql does not open") as caught:
        open_engine(tmp_path)
    assert "secret-name" not in str(caught.value)


def test_a_password_is_not_shown_by_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the error nor the next step of a command holds the URL's password."""
    assert run_command_line(["budget", "--db", f"mysql://root:{SECRET}@localhost/x"]) == 2
    captured = capsys.readouterr()
    assert "MySQL" in captured.err
    assert SECRET not in captured.out + captured.err


def test_the_errors_are_dpsqls_own() -> None:
    """A text that is no path at all is refused as before."""
    with pytest.raises(DpsqlError):
        open_engine("a\x00b")
