"""Tests of the file that experiments keep their results in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.errors import ParameterError, UsageError
from examples.benchmarks.results import Results

COLUMNS = ("set", "split", "accuracy")
IRIS = {"set": "iris", "split": 0, "accuracy": 0.9}
WINE = {"set": 'wi,ne "red"', "split": 1, "accuracy": 0.8}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of two results."""
    results = Results(tmp_path / "folder" / "out.csv", COLUMNS)
    results.add(IRIS)
    results.add(WINE)
    return tmp_path / "folder" / "out.csv"


def test_what_was_added_is_found_again(file: Path) -> None:
    """A second process finds the rows of the first, commas and quotes included."""
    found = Results(file, COLUMNS).find({"set": 'wi,ne "red"', "split": 1})
    assert found == {"set": 'wi,ne "red"', "split": "1", "accuracy": "0.8"}


def test_what_is_not_there_is_not_found(file: Path) -> None:
    """A key that no row has gives None."""
    assert Results(file, COLUMNS).find({"set": "iris", "split": 1}) is None


def test_a_row_is_found_after_a_search_that_missed_it(file: Path) -> None:
    """Adding a row is seen by keys that were asked for before."""
    results = Results(file, COLUMNS)
    assert results.find({"set": "car"}) is None
    results.add({"set": "car"})
    assert results.find({"set": "car"}) == {"set": "car", "split": "", "accuracy": ""}


def test_a_row_is_in_the_file_at_once(file: Path) -> None:
    """Nothing waits in memory: a killed process loses no row that was added."""
    Results(file, COLUMNS).add({"set": "car", "split": 2, "accuracy": 0.5})
    assert file.read_text(encoding="utf-8").endswith("\ncar,2,0.5\n")


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_line_that_was_cut_is_done_again(file: Path, cut: int) -> None:
    """Wherever the last line was cut, the rows before it stay and it is not there."""
    last = 'wi,ne ""red""",1,0.8\n'
    data = file.read_bytes()
    file.write_bytes(data[:-cut])
    assert cut < len(last)
    results = Results(file, COLUMNS)
    assert [row["set"] for row in results.rows] == ["iris"]
    results.add(WINE)
    assert file.read_bytes() == data


def test_a_cut_header_starts_the_file_anew(tmp_path: Path) -> None:
    """A file that holds half a header is taken as empty."""
    (tmp_path / "out.csv").write_text("set,spl", encoding="utf-8")
    assert Results(tmp_path / "out.csv", COLUMNS).rows == []
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "set,split,accuracy\n"


def test_other_columns_are_refused(file: Path) -> None:
    """The results of another experiment are not mixed in."""
    with pytest.raises(UsageError, match="other columns"):
        Results(file, ("set", "epsilon"))


def test_an_earlier_form_is_written_anew(file: Path) -> None:
    """A file with the older columns gets the new ones, empty for its rows, and is the new form from then on."""
    more = (*COLUMNS, "auc")
    assert Results(file, more, older=COLUMNS).find({"set": "iris"}) == {
        "set": "iris", "split": "0", "accuracy": "0.9", "auc": "",
    }  # fmt: skip
    Results(file, more, older=COLUMNS).add({"set": "car", "auc": 0.5})
    assert [row["auc"] for row in Results(file, more).rows] == ["", "", "0.5"]
    assert sorted(path.name for path in file.parent.iterdir()) == ["out.csv"]


@pytest.mark.parametrize("row", [{"sett": "iris"}, {"set": "a\nb"}])
def test_a_row_that_does_not_fit_is_refused(file: Path, row: dict[str, object]) -> None:
    """Unknown columns and line ends are errors, and nothing is written."""
    before = file.read_bytes()
    with pytest.raises(ParameterError):
        Results(file, COLUMNS).add(row)
    assert file.read_bytes() == before
