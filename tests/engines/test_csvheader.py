"""The header alone says how a CSV file is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.engines.files.csv_header import Header, read_header
from dpsql.errors import DatabaseError

from .folder import csv


@pytest.mark.parametrize(
    ("text", "names", "delimiter"),
    [
        ("a,b\n1;2\n", ("a", "b"), ","),
        ("a;b\n1,2\n3,4\n", ("a", "b"), ";"),
        ("a|b\r\n", ("a", "b"), "|"),
        ("a\n1,2\n", ("a",), ","),
        ('\ufeff"it\'s, one","say ""so"""\n', ("it's, one", 'say "so"'), ","),
        ("é,🌲", ("é", "🌲"), ","),
    ],
)
def test_names_and_delimiter(tmp_path: Path, text: str, names: tuple[str, ...], delimiter: str) -> None:
    """They come from the first line, whatever stands below."""
    assert read_header(csv(tmp_path / "a.csv", text)) == Header(names, delimiter)


def test_tabs_part_a_tsv_file(tmp_path: Path) -> None:
    """Even where a name holds a comma."""
    assert read_header(csv(tmp_path / "a.tsv", "a,x\tb\n")).names == ("a,x", "b")


@pytest.mark.parametrize(
    "text", ["", "\n", "a,a\n", "a,A\n", "a,,b\n", "39,Private\n", "a,1e3\n", "a,\x00\n", b"a,\xff\n"]
)
def test_a_row_is_not_taken_for_a_header(tmp_path: Path, text: str | bytes) -> None:
    """A first line that cannot be names is refused, and not quoted."""
    with pytest.raises(DatabaseError, match="does not give each column a name") as raised:
        read_header(csv(tmp_path / "a.csv", text))
    assert "Private" not in str(raised.value)
