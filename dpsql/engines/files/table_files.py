"""Which files are which tables: a folder of Parquet and CSV files, or one file, and where their ledger lies.

Each file is a table, named without its ending. A sub-folder of Parquet files is one table, partitioned (`year=2024/…`)
or not. Names that start with a dot or an underscore are passed over, and so is everything else.

Rows have one budget, so files have one ledger: `dpsql_ledger.duckdb` in their folder, whether the folder or a single
file of it is opened. What would give the same rows a second budget is refused: two names of one file, a ledger in a
sub-folder that is a table, a sub-folder of a folder that has a ledger, another ledger than the one that is there, or
than the one that lies where a link leads. A SQLite file has a ledger of its own, beside the file itself, by its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsql.engines.files.sqlite_rows import is_sqlite, table_names
from dpsql.engines.other_databases import other_files
from dpsql.errors import DatabaseError, ParameterError

PARQUET = "parquet"
CSV = "csv"
SQLITE = "sqlite"
KINDS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": CSV, ".tsv": CSV}
LEDGER = "dpsql_ledger.duckdb"
#: What the identity of a file starts with. When a file is written anew under its name, its identity changes.
FILE = "file "


@dataclass(frozen=True)
class TableFiles:
    """One table's files, by their real paths. `place` is the file or folder as its owner named it.

    A file of SQLite holds several tables; `name` is then the table's own.
    """

    name: str
    kind: str
    place: Path
    paths: tuple[Path, ...]

    @property
    def part(self) -> str:
        """What tells this table from the others of its file, to be added to the file's identity; "" where it is alone.

        A table of SQLite that is renamed is another table then: its file cannot be marked.
        """
        return f" table {self.name.lower()}" if self.kind == SQLITE else ""

    @property
    def keys(self) -> set[tuple[str, ...]]:
        """The columns that folders named `column=value` give to each file; all files should have the same."""
        return {tuple(part.split("=")[0] for part in self._inside(path) if "=" in part) for path in self.paths}

    @property
    def is_partitioned(self) -> bool:
        """Whether folders inside the table are named `column=value`."""
        return any(self.keys)

    @property
    def folders(self) -> set[Path]:
        """The table's own folder and all inside it that lead to its files; none for a single file."""
        if self.place.is_file():
            return set()
        root = self.place.resolve()
        return {root} | {part for path in self.paths for part in path.parents if part.is_relative_to(root)}

    @property
    def words(self) -> str:
        """How messages call the files. The parts of a table stay unnamed: their names can follow from rows."""
        return f'file "{self.place.name}"' if self.place.is_file() else f'folder "{self.place.name}"'

    def _inside(self, path: Path) -> tuple[str, ...]:
        root = self.place.resolve()
        return path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()


def is_files(target: Path) -> bool:
    """Whether a path is meant as files: an existing folder, a name that ends like a Parquet or CSV file, SQLite."""
    return target.suffix.lower() in KINDS or target.is_dir() or is_sqlite(target)


def file_identities(places: Iterable[Path]) -> frozenset[str]:
    """Return the identity of each file or folder of this machine: after a rename, or by a link, it is the same.

    A copy, and a file that was written anew under the old name, are other files.
    """
    facts = [place.stat() for place in places if place.exists()]
    return frozenset(f"{FILE}{fact.st_dev}.{fact.st_ino}" for fact in facts)


def find_tables(target: Path) -> list[TableFiles]:
    """Return the tables of a folder, or the one table of a single file. Reads names, no file."""
    if not target.exists():
        what = "file" if target.suffix.lower() in KINDS else "folder"
        raise DatabaseError(f'there is no {what} "{target}".', hint="check --db")
    if is_sqlite(target):
        return _sqlite_tables(target)
    folder = _folder(target)
    tables = list(_tables(folder))
    if target.is_file():
        mine = [table for table in tables if table.place.name == target.name] or [_one_file(target)]
        tables = mine + [table for table in tables if table.name.lower() == mine[0].name.lower() and table not in mine]
    _check_names(tables)
    _check_once(tables)
    if not tables and not (folder / LEDGER).exists():
        raise DatabaseError(
            f'there is no Parquet or CSV file in "{target}".{other_files(folder)}',
            hint="put such files there, or give a DuckDB file: --db FILE",
        )
    _check_partitions(folder, tables)
    return tables


def ledger_file(target: Path, tables: Sequence[TableFiles], ledger: str | Path | None) -> Path:
    """Return where the ledger of these files lies: in their folder, unless the owner says otherwise."""
    usual = usual_ledger(target)
    folder = usual.parent
    for inner in sorted({part for table in tables for part in table.folders}):
        if (inner / LEDGER).exists():
            raise DatabaseError(
                f'"{inner}" has a ledger of its own, so its rows would have two budgets.', hint=f"--db {inner}"
            )
    for outer in folder.parents if any(table.kind == PARQUET for table in tables) else ():
        if (outer / LEDGER).exists():
            raise DatabaseError(
                f'"{folder.name}" belongs to a table of "{outer}", which has a ledger: two budgets for its rows.',
                hint=f"--db {outer}",
            )
    if ledger is not None and is_files(Path(ledger)):
        raise ParameterError("ledger", allowed="a DuckDB file, new or there already", given=str(ledger))
    if ledger is not None and usual.exists() and Path(ledger).resolve() != usual.resolve():
        raise ParameterError(
            "ledger", allowed="left out, as these files have one already", given=str(ledger), hint=f"it is {usual}"
        )
    place = usual if ledger is None else Path(ledger)
    _check_links(tables, place)
    return place


def usual_ledger(target: Path) -> Path:
    """Return where files have their ledger by themselves: SQLite beside the file that a link leads to, by its name."""
    if not is_sqlite(target):
        return _folder(target).resolve() / LEDGER
    file = target.resolve()
    return file.with_name(f"{file.name}.{LEDGER}")


def _check_links(tables: Sequence[TableFiles], ledger: Path) -> None:
    """Refuse files behind links where they have a ledger that is not the one in use: their rows would have two budgets.

    A Parquet file can be part of a table of any folder above it; a CSV file is a table of its own folder.
    """
    for table in tables:
        for folder in sorted(_folders_of_ledgers(table)):
            other = folder / LEDGER
            if other.exists() and other.resolve() != ledger.resolve():
                raise DatabaseError(
                    f'{table.words} leads to files that have a ledger, "{other}": two budgets for their rows.',
                    hint=f"--db {folder}",
                )


def _folders_of_ledgers(table: TableFiles) -> set[Path]:
    """Return the folders in which a ledger would know the files of a table, where they really are."""
    folders = {path.parent for path in table.paths} if table.kind != SQLITE else set()
    return folders | {outer for folder in folders for outer in folder.parents if table.kind == PARQUET}


def _folder(target: Path) -> Path:
    return target if target.is_dir() else target.parent


def _tables(folder: Path) -> Iterator[TableFiles]:
    for place in sorted(folder.iterdir(), key=lambda path: path.name):
        if place.name.startswith((".", "_")):
            continue
        if place.is_file() and place.suffix.lower() in KINDS:
            yield _one_file(place)
        elif place.is_dir():
            parts = tuple(sorted(_parts(place)))
            if parts:
                yield TableFiles(_readable(place.name), PARQUET, place, parts)


def _sqlite_tables(target: Path) -> list[TableFiles]:
    """Return the stored tables of a SQLite file."""
    tables = [TableFiles(name, SQLITE, target, (target.resolve(),)) for name in table_names(target)]
    if not tables:
        raise DatabaseError(f'there is no table in the SQLite file "{target}".', hint="check --db")
    _check_hard_links(target.resolve())
    return tables


def _check_hard_links(file: Path) -> None:
    """Refuse a file that its folder has under a second name, which would have a ledger of its own."""
    facts = file.stat()
    for other in sorted(file.parent.iterdir()) if facts.st_nlink > 1 else ():
        if other.name != file.name and not other.is_symlink() and other.is_file() and other.samefile(file):
            raise DatabaseError(
                f'"{file.name}" and "{other.name}" are one file under two names: its rows have one budget, not two.',
                hint="remove one of them",
            )


def _one_file(place: Path) -> TableFiles:
    return TableFiles(_readable(place.stem), KINDS[place.suffix.lower()], place, (place.resolve(),))


def _parts(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files below a folder; links to other folders are not followed."""
    for root, folders, files in os.walk(folder.resolve()):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            if not name.startswith((".", "_")) and KINDS.get(Path(name).suffix.lower()) == PARQUET:
                yield Path(root, name).resolve()


def _readable(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        name = ""
    if not name:
        raise DatabaseError("a file in the folder has a name that is not UTF-8.", hint="rename it")
    return name


def _check_names(tables: Sequence[TableFiles]) -> None:
    seen: dict[str, TableFiles] = {}
    for table in tables:
        other = seen.setdefault(table.name.lower(), table)
        if other is not table:
            raise DatabaseError(
                f'"{other.place.name}" and "{table.place.name}" would both be table "{other.name}".',
                hint="rename one of them",
            )


def _check_once(tables: Sequence[TableFiles]) -> None:
    """Refuse one file under two names: its rows would have two budgets."""
    seen: dict[tuple[int, int], TableFiles] = {}
    for table in tables:
        for path in table.paths:
            facts = path.stat()
            other = seen.setdefault((facts.st_dev, facts.st_ino), table)
            if other is not table:
                raise DatabaseError(
                    f'"{other.place.name}" and "{table.place.name}" are one file under two names: its rows have one '
                    "budget, not two.",
                    hint="remove one of them",
                )


def _check_partitions(folder: Path, tables: Sequence[TableFiles]) -> None:
    if any("=" in table.name for table in tables if table.place.is_dir()):
        above = folder.resolve().parent
        raise DatabaseError(f'"{folder}" is one partitioned table, not a folder of tables.', hint=f"--db {above}")
