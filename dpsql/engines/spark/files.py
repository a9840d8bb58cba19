"""The Parquet tables of a folder, for Spark: files, and folders of files, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpsql.engines.identity_texts import PATH

#: Where a Parquet table is said to be; its name there is its path: parquet.`/path`.
PARQUET = "parquet"


def is_parquet(schema: str, name: str) -> bool:
    """Tell whether this is a Parquet table, and not one of a database that happens to be called so.

    >>> is_parquet("parquet", "/lake/adult.parquet"), is_parquet("parquet", "adult")
    (True, False)
    """
    return schema == PARQUET and name.startswith("/")


class ParquetFolder:
    """A folder's tables, and what their footers say. To read footers is a job of its own, done once for each change."""

    def __init__(self, folder: Path | None) -> None:
        self.path = folder
        self._shapes: dict[str, tuple[list[tuple[Any, ...]], Any]] = {}

    def names(self) -> dict[str, Path]:
        """Return the tables by their names."""
        if self.path is None:
            return {}
        entries = [entry for entry in sorted(self.path.iterdir()) if not entry.name.startswith((".", "_"))]
        tables = [entry for entry in entries if entry.suffix == ".parquet" or next(entry.rglob("*.parquet"), None)]
        return {entry.name.removesuffix(".parquet"): entry for entry in tables if not set(entry.name) & set("*?[]{}\\")}

    def frame(self, session: Any, path: str) -> Any:
        """Return the rows of a table as a frame of this session; nothing is read but footers."""
        stamps = _stamps(Path(path))
        cached = self._shapes.get(path)
        if cached is not None and cached[0] == stamps:
            return session.read.schema(cached[1]).parquet(path)
        frame = session.read.parquet(path)
        self._shapes[path] = stamps, frame.schema
        return frame


def local_files(rows: Iterable[str]) -> list[Path]:
    """Return the files of this machine in which a table's rows are, of the identities that tell where these lie."""
    places = [Path(identity.removeprefix(PATH)) for identity in rows if identity.startswith(f"{PATH}/")]
    inside = [file for place in places if place.is_dir() for file in place.rglob("*")]
    return sorted({file for file in (*places, *inside) if file.is_file() and not file.name.startswith((".", "_"))})


def _stamps(place: Path) -> list[tuple[Any, ...]]:
    """Return which files a table has, when each was written and changed, and how long it is."""
    files = [(str(file), file.stat()) for file in (place, *place.rglob("*"))]
    return sorted((name, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size) for name, facts in files)
