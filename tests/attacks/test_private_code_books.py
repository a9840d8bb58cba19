"""A file of private rows is no code book, whatever its columns are called and by whatever name it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import BudgetError


@pytest.mark.parametrize("named", ["visits.csv", "link.csv", "hard.csv"])
def test_values_in_private_rows_are_not_read_as_a_code_book(tmp_path: Path, named: str) -> None:
    """A table of observations has a line for each value of a column, as a code book has."""
    rows = "".join(f"job,secret{number}\n" for number in range(30))
    data, private = tmp_path / "data", tmp_path / "data" / "visits.csv"
    data.mkdir()
    private.write_text(f"column,value\n{rows}")
    (data / "people.csv").write_text("job,y\ncook,no\nclerk,yes\n")
    (tmp_path / "link.csv").symlink_to(private)
    (tmp_path / "hard.csv").hardlink_to(private)
    with connect(data, who="owner") as db:
        db.register("visits", {"label": None, "features": {"value": {"type": "hashed"}}}, cap=1)
        with pytest.raises(BudgetError, match="registered private table"):
            db.draft("people", label="y", dictionary=(tmp_path if named != private.name else data) / named)


def test_a_public_code_book_beside_it_is_read(tmp_path: Path) -> None:
    """A file that no registered table reads is what its owner says it is."""
    (tmp_path / "people.csv").write_text("job,y\ncook,no\nclerk,yes\n")
    book = tmp_path / "book.csv"
    book.write_text("column,value\njob,cook\njob,clerk\n")
    with connect(tmp_path / "people.csv", who="owner") as db:
        assert "[cook, clerk]" in db.draft("people", label="y", dictionary=book).text
