"""Which files are which tables, and that no rows get a second budget."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpsql.engines.files.table_files import LEDGER, find_tables, is_files, ledger_file
from dpsql.errors import DatabaseError, ParameterError

from .folder import csv, parquet


def names(folder: Path) -> list[str]:
    """Return the names of a folder's tables."""
    return [one.name for one in find_tables(folder)]


def test_each_file_is_a_table_and_a_sub_folder_is_one(tmp_path: Path) -> None:
    """Endings decide, letter case aside; other files, hidden ones and folders without Parquet are passed over."""
    parquet(tmp_path / "adult.parquet")
    parquet(tmp_path / "short.PQ")
    csv(tmp_path / "people.csv")
    csv(tmp_path / "tabs.tsv", "a\tb\n")
    parquet(tmp_path / "sales" / "year=2023" / "a.parquet")
    parquet(tmp_path / "sales" / "year=2024" / "b.parquet")
    parquet(tmp_path / "flat" / "deep" / "a.parquet")
    for ignored in ("readme.md", ".hidden.csv", "_tmp.parquet", "photos/cat.png", "sales/_temporary.parquet"):
        csv(tmp_path / ignored)
    assert names(tmp_path) == ["adult", "flat", "people", "sales", "short", "tabs"]
    tables = {one.name: one for one in find_tables(tmp_path)}
    assert (tables["sales"].is_partitioned, tables["flat"].is_partitioned) == (True, False)
    assert [path.name for path in tables["sales"].paths] == ["a.parquet", "b.parquet"]


def test_a_single_file_is_one_table(tmp_path: Path) -> None:
    """Its neighbours are not there, and need not be in order."""
    parquet(tmp_path / "other.parquet")
    assert names(csv(tmp_path / "people.csv")) == ["people"]


@pytest.mark.parametrize("second", ["people.parquet", "People.tsv", "people/a.parquet"])
@pytest.mark.parametrize("single", [False, True])
def test_two_files_of_one_name_are_refused(tmp_path: Path, second: str, single: bool) -> None:
    """The message names both, whether the folder or one of them is opened."""
    first = csv(tmp_path / "people.csv")
    parquet(tmp_path / second)
    with pytest.raises(DatabaseError, match='would both be table "[Pp]eople"') as raised:
        find_tables(first if single else tmp_path)
    assert second.split("/")[0] in raised.value.message


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_one_file_under_two_names_is_refused(tmp_path: Path, link: object) -> None:
    """Its rows have one budget, by links of either kind."""
    file = parquet(tmp_path / "adult.parquet")
    link(file, tmp_path / "grown.parquet")  # type: ignore[operator]
    with pytest.raises(DatabaseError, match="one file under two names"):
        find_tables(tmp_path)


def test_a_link_to_a_file_elsewhere_is_a_table(tmp_path: Path) -> None:
    """It is called by its own name and read where it leads."""
    file = parquet(tmp_path / "store" / "v7.parquet")
    (tmp_path / "data").mkdir()
    os.symlink(file, tmp_path / "data" / "adult.parquet")
    [table] = find_tables(tmp_path / "data")
    assert (table.name, table.paths) == ("adult", (file,))


def test_a_link_to_nothing_is_passed_over(tmp_path: Path) -> None:
    """A dangling link is no table."""
    csv(tmp_path / "people.csv")
    os.symlink(tmp_path / "gone.parquet", tmp_path / "adult.parquet")
    assert names(tmp_path) == ["people"]


def test_a_folder_that_links_to_itself_is_read_once(tmp_path: Path) -> None:
    """Links inside a table's folder are not followed."""
    parquet(tmp_path / "sales" / "a.parquet")
    os.symlink(tmp_path / "sales", tmp_path / "sales" / "again")
    assert len(find_tables(tmp_path)[0].paths) == 1


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    """So is a path that leads nowhere."""
    csv(tmp_path / "readme.md")
    with pytest.raises(DatabaseError, match="no Parquet or CSV file"):
        find_tables(tmp_path)
    with pytest.raises(DatabaseError, match="there is no file"):
        find_tables(tmp_path / "gone.csv")


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """A file name that is not UTF-8 gives a clear error, which does not quote it."""
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).write_text("a\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(DatabaseError, match="not UTF-8"):
        find_tables(tmp_path)


def test_partitions_are_not_tables(tmp_path: Path) -> None:
    """A partitioned table's own folder is refused, with the folder to open."""
    parquet(tmp_path / "sales" / "year=2023" / "a.parquet")
    with pytest.raises(DatabaseError, match="one partitioned table") as raised:
        find_tables(tmp_path / "sales")
    assert raised.value.hint == f"--db {tmp_path}"


def test_a_folder_and_its_files_share_a_ledger(tmp_path: Path) -> None:
    """Opened by itself a file pays from the same budget."""
    file = csv(tmp_path / "people.csv")
    place = tmp_path.resolve() / LEDGER
    assert ledger_file(tmp_path, find_tables(tmp_path), None) == place
    assert ledger_file(file, find_tables(file), None) == place


def test_a_second_ledger_is_refused(tmp_path: Path) -> None:
    """Beside the one that is there, in a table's folder, and in a folder that is itself a table."""
    parquet(tmp_path / "sales" / "north" / "a.parquet")
    (tmp_path / LEDGER).touch()
    with pytest.raises(ParameterError, match="have one already"):
        ledger_file(tmp_path, find_tables(tmp_path), tmp_path / "other.duckdb")
    assert ledger_file(tmp_path, find_tables(tmp_path), tmp_path / LEDGER) == tmp_path / LEDGER
    with pytest.raises(DatabaseError, match='"north" belongs to a table of'):
        ledger_file(tmp_path / "sales" / "north", find_tables(tmp_path / "sales" / "north"), None)
    (tmp_path / LEDGER).rename(tmp_path / "sales" / "north" / LEDGER)
    with pytest.raises(DatabaseError, match="ledger of its own"):
        ledger_file(tmp_path, find_tables(tmp_path), None)


def test_what_is_files(tmp_path: Path) -> None:
    """Folders and endings; a DuckDB file is none."""
    assert [is_files(Path(name)) for name in (str(tmp_path), "a.CSV", "a.parquet", "a.duckdb", "a")] == [
        True, True, True, False, False,
    ]  # fmt: skip
