"""Keeps results in a CSV file that an experiment can be stopped at any moment and go on from.

Each row is written and flushed as soon as it is added. A last line without its end, which a killed process leaves, is
cut off when the file is opened, and so is done again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpsql.errors import ParameterError, UsageError

Row = dict[str, str]


class Results:
    """Rows of text under named columns, in a file, or in memory alone where `path` is None.

    A file that has the columns of `older`, an earlier form of the same results, is written anew with the columns of
    now; what its rows do not know stays empty.

    >>> results = Results(None, ("set", "split", "accuracy"))
    >>> results.add({"set": "iris", "split": 0, "accuracy": 0.9})
    {'set': 'iris', 'split': '0', 'accuracy': '0.9'}
    >>> results.find({"set": "iris", "split": 0})["accuracy"], results.find({"set": "wine"})
    ('0.9', None)
    """

    def __init__(self, path: Path | None, columns: Sequence[str], *, older: Sequence[str] = ()) -> None:
        self.path = path
        self.columns = tuple(columns)
        self._older = tuple(older)
        self.rows: list[Row] = []
        self._indexes: dict[tuple[str, ...], dict[tuple[str, ...], Row]] = {}
        if path is not None:
            self._open(path)

    def find(self, key: Mapping[str, object]) -> Row | None:
        """Return the first row with these values in these columns, or None."""
        names = tuple(key)
        if names not in self._indexes:
            index: dict[tuple[str, ...], Row] = {}
            for row in self.rows:
                index.setdefault(_values(row, names), row)
            self._indexes[names] = index
        return self._indexes[names].get(tuple(str(value) for value in key.values()))

    def add(self, row: Mapping[str, object]) -> Row:
        """Write a row down and return it as text; columns that it does not have stay empty."""
        unknown = sorted(set(row) - set(self.columns))
        if unknown:
            raise ParameterError("row", allowed=f"of columns {', '.join(self.columns)}", given=", ".join(unknown))
        texts = {name: str(row.get(name, "")) for name in self.columns}
        if any("\n" in text or "\r" in text for text in texts.values()):
            raise ParameterError("row", allowed="text without line ends", given="a line end")
        if self.path is not None:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                file.write(_line(texts.values()))
        self.rows.append(texts)
        for names, index in self._indexes.items():
            index.setdefault(_values(texts, names), texts)
        return texts

    def _open(self, path: Path) -> None:
        """Read what is there; write the header into a new file."""
        data = path.read_bytes() if path.exists() else b""
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(complete))
        if not complete:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_line(self.columns), encoding="utf-8", newline="")
            return
        reader = csv.DictReader(io.StringIO(complete.decode("utf-8"), newline=""))
        header = tuple(reader.fieldnames or ())
        if header not in (self.columns, self._older):
            raise UsageError(f'"{path}" has other columns than these results.', hint="name a new file")
        self.rows = [{name: row.get(name, "") for name in self.columns} for row in reader]
        if header != self.columns:
            self._write_anew(path)

    def _write_anew(self, path: Path) -> None:
        """Write header and rows to a new file beside it, then put that in its place: a kill leaves one or the other."""
        new = path.with_name(path.name + ".new")
        lines = [_line(self.columns), *(_line(row.values()) for row in self.rows)]
        new.write_text("".join(lines), encoding="utf-8", newline="")
        new.replace(path)


def _values(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(row.get(name, "") for name in names)


def _line(values: object) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(values)  # type: ignore[arg-type]
    return text.getvalue()
