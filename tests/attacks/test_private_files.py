"""Files of a registered table keep its budget: moved, renamed, linked, added later, or named by their path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.cli.main import run_command_line
from dpsql.engines.files.read_rows import read_rows
from dpsql.errors import BudgetError, DpsqlError
from dpsql.models.score import public_table
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look, assert_one_budget
from tests.engines.folder import csv, parquet

ROWS = "SELECT CAST(range AS DOUBLE) AS x, 'a' AS c, 'yes' AS y FROM range(10)"
TEXT = "x,c,y\n" + "1,a,yes\n2,b,no\n" * 5


def spend(folder: Path) -> None:
    """Register table "people" of a folder unless it is, and make a run on it."""
    with connect(folder, who="ann") as db:
        if not db.book.datasets():
            db.register("people", SCHEMA, cap=1)
        db.train("people", **TINY)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder whose table "people" is a sub-folder of two files, with half of its budget spent."""
    for name in "ab":
        parquet(tmp_path / "people" / f"{name}.parquet", ROWS)
    spend(tmp_path)
    return tmp_path


# Moved files.


def move_out(lake: Path) -> None:
    """Move a part of the table out of its folder."""
    (lake / "people" / "a.parquet").rename(lake / "other.parquet")


def move_to_another_folder(lake: Path) -> None:
    """Move a part into a folder that is another table."""
    (lake / "other").mkdir()
    (lake / "people" / "a.parquet").rename(lake / "other" / "z.parquet")


def move_out_an_added_part(lake: Path) -> None:
    """Add a part, make a run that reads it, and move it out."""
    parquet(lake / "people" / "c.parquet", ROWS)
    spend(lake)
    (lake / "people" / "c.parquet").rename(lake / "other.parquet")


def move_out_of_a_folder_made_anew(lake: Path) -> None:
    """Write the whole folder anew, make a run, and move a part of the new one out."""
    (lake / "people").rename(lake / "_old")
    for name in "ab":
        parquet(lake / "people" / f"{name}.parquet", ROWS)
    spend(lake)
    (lake / "people" / "a.parquet").rename(lake / "other.parquet")


@pytest.mark.parametrize(
    "move", [move_out, move_to_another_folder, move_out_an_added_part, move_out_of_a_folder_made_anew]
)
def test_a_moved_part_keeps_its_budget(lake: Path, move: Callable[[Path], None]) -> None:
    """Under its new name it cannot be registered, and is not read for free."""
    move(lake)
    with connect(lake) as db:
        assert_one_budget(db, "other")


def test_a_file_moved_into_a_folder_keeps_its_budget(tmp_path: Path) -> None:
    """The folder holds rows of a registered table then."""
    path = parquet(tmp_path / "people.parquet", ROWS)
    spend(tmp_path)
    (tmp_path / "other").mkdir()
    path.rename(tmp_path / "other" / "z.parquet")
    with connect(tmp_path) as db:
        assert_one_budget(db, "other")


@pytest.mark.parametrize("name", ["people.parquet", "people.csv"])
def test_a_file_written_anew_and_renamed_keeps_its_budget(tmp_path: Path, name: str) -> None:
    """Once a run has read it; until then nothing was charged for its rows."""
    write: Callable[[Path], Path] = (lambda path: csv(path, TEXT)) if name.endswith("csv") else _parquet
    write(tmp_path / name)
    spend(tmp_path)
    new = write(tmp_path / f"_new{Path(name).suffix}")
    new.rename(tmp_path / name)
    spend(tmp_path)
    (tmp_path / name).rename(tmp_path / f"other{Path(name).suffix}")
    with connect(tmp_path) as db:
        assert_one_budget(db, "other")


def _parquet(path: Path) -> Path:
    return parquet(path, ROWS)


def test_with_replace_a_moved_part_takes_the_budget_along(lake: Path) -> None:
    """What was spent on it stays spent."""
    move_out(lake)
    with connect(lake) as db:
        db.register("other", SCHEMA, cap=1, replace=True)
        assert db.budget("other").spent_text == "0.5"


def test_a_new_file_beside_a_registered_folder_is_public(lake: Path) -> None:
    """So is a copy of its rows: that it is one cannot be told."""
    parquet(lake / "other.parquet", ROWS)
    with connect(lake) as db:
        assert public_table(db, "other").name == "other"


def test_a_file_that_took_the_number_of_one_that_is_gone_is_not_it(tmp_path: Path) -> None:
    """The stamp of a file that a run read holds the time of writing: file systems use a file's number again."""
    parquet(tmp_path / "people.parquet", ROWS)
    spend(tmp_path)
    new = parquet(tmp_path / "_new.parquet", ROWS)
    new.rename(tmp_path / "people.parquet")
    spend(tmp_path)
    (tmp_path / "people.parquet").rename(tmp_path / "other.parquet")
    os.utime(tmp_path / "other.parquet", ns=(0, 0))  # as if it were another file, written at another time
    with connect(tmp_path) as db:
        assert public_table(db, "other").name == "other"


# Named by their path.


@pytest.fixture(params=["parquet", "csv", "folder"])
def private(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the path of a file of table "people", which is registered in folder "data" and has a model there."""
    path: Path = {
        "parquet": lambda: parquet(tmp_path / "data" / "people.parquet", ROWS),
        "csv": lambda: csv(tmp_path / "data" / "people.csv", TEXT),
        "folder": lambda: parquet(tmp_path / "data" / "people" / "day=1" / "a.parquet", ROWS),
    }[request.param]()
    spend(tmp_path / "data")
    return path


def the_path(path: Path) -> Path:
    """Name the file itself."""
    return path


def a_link(path: Path) -> Path:
    """Make a symbolic link to the file."""
    link = path.with_name(f"_link{path.suffix}")
    link.symlink_to(path)
    return link


def a_hard_link(path: Path) -> Path:
    """Give the file a second name."""
    link = path.with_name(f"_second{path.suffix}")
    os.link(path, link)
    return link


def a_roundabout_path(path: Path) -> Path:
    """Go to the file by way of another folder."""
    return path.parent / ".." / path.parent.name / path.name


@pytest.mark.parametrize("name", [the_path, a_link, a_hard_link, a_roundabout_path])
def test_a_private_file_is_not_scored_by_its_path(private: Path, tmp_path: Path, name: Callable[[Path], Path]) -> None:
    """Neither shown, nor kept, nor labelled as a batch, by whatever name; nothing is charged."""
    data = name(private)
    with connect(tmp_path / "data") as db:
        model, shape = db.model("people_1"), db.structure("people", trees=2)
        looks: list[Callable[[], object]] = [
            lambda: model.predict(data),
            lambda: model.predict(str(data)),
            lambda: model.predict(data, into="kept"),
            lambda: model.predict_proba(data),
            lambda: model.predict_top(data, 1),
            lambda: db.plan_batch(shape, data, epsilon="0.1"),
            lambda: db.predict_private(shape, data, epsilon="0.1"),
        ]
        for look in looks:
            with pytest.raises(BudgetError, match="cannot be read for free"):
                look()
        assert db.budget("people").spent_text == "0.5"


def test_the_command_refuses_a_private_file_too(
    private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dpsql predict --file` ends with the code of a refused budget."""
    words = ["predict", "--db", str(tmp_path / "data"), "--model", "people_1", "--file", str(private)]
    assert run_command_line(words) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "cannot be read for free" in shown.err


def test_a_part_added_since_the_last_run_is_private_by_its_place(lake: Path) -> None:
    """It lies in a registered folder, though no run has read it yet."""
    path = parquet(lake / "people" / "c.parquet", ROWS)
    with connect(lake) as db, pytest.raises(BudgetError, match="cannot be read for free"):
        db.model("people_1").predict(path)


def test_a_file_of_new_rows_is_scored(private: Path, tmp_path: Path) -> None:
    """A copy of the rows elsewhere cannot be told from new ones."""
    new = parquet(tmp_path / "new.parquet", ROWS)
    with connect(private if private.parent.name == "data" else tmp_path / "data") as db:
        found = db.model("people_1").predict(new)
    assert found is not None
    assert len(found) == 10


def test_a_public_file_whose_name_is_a_pattern_means_itself(tmp_path: Path) -> None:
    """A file called "p?ople.csv" is that one file, not all whose names fit."""
    csv(tmp_path / "people.csv", TEXT)
    path = csv(tmp_path / "p?ople.csv", "x,c,y\n7,a,yes\n")
    assert len(read_rows(path, ["x"])) == 1
    with pytest.raises(DpsqlError):
        read_rows(tmp_path / "p*.csv", ["x"])


def test_a_moved_file_is_not_read_by_a_view(lake: Path) -> None:
    """A view of it shows private rows."""
    move_out(lake)
    with connect(lake) as db:
        with db.engine.transaction() as transaction:
            transaction.run("CREATE VIEW look AS SELECT * FROM other")
        assert_no_free_look(db, "look")
