"""Tests of `python -m examples.benchmarks accuracy` on a small table of our own."""

from __future__ import annotations

import contextlib
import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from dpsql import methods
from dpsql.api import census
from examples.benchmarks import accuracy, figures
from examples.benchmarks.__main__ import main
from examples.benchmarks.accuracy import Question
from examples.benchmarks.figures import references
from examples.benchmarks.splits import GROUPS, REAL, SETS, Outcome, Table

QUICK = ("--param", "trees=2", "--param", "depth=2")
ONE = ("--sets", "people", "--method", "rosnam", "--epsilon", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder with one table of 600 people."""
    people = census.rows(600, seed=1)
    with duckdb.connect() as connection:
        connection.register("people", people)
        connection.execute("COPY people TO ? (FORMAT parquet)", [str(tmp_path / "people.parquet")])
    schemas = {"people": {**census.SCHEMA, "file": "people.parquet"}}
    (tmp_path / "schemas.json").write_text(json.dumps(schemas), encoding="utf-8")
    return tmp_path


def run(folder: Path, *words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["accuracy", "--data", str(folder), *ONE, *words], catch_exceptions=False)


def written(folder: Path) -> list[dict[str, str]]:
    """Return the splits that were written down."""
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Let splits take no time: accuracy is 0.50, 0.52 or 0.54 by the split's number; return what was run."""
    done: list[tuple[str, int]] = []

    def outcome(table: Table, split: int, **asked: Any) -> Outcome:
        done.append((asked["method"], split))
        return Outcome(0.5 + 0.02 * (split % 3), 0.5, 60, 2, 8, asked["epsilon"])

    monkeypatch.setattr(accuracy, "run_split", outcome)
    return done


def test_one_table_per_method_and_epsilon(folder: Path) -> None:
    """Each has a title and a line for each set; below them both methods stand side by side, for each epsilon."""
    done = run(folder, "--method", "rosnam,rdt", "--epsilon", "0.5,1.0", "--splits", "1", *QUICK)
    assert done.exit_code == 0
    titles = [f"{method}, epsilon {epsilon}" for method in ("rosnam", "rdt") for epsilon in ("0.5", "1")]
    places = [done.stdout.index(title) for title in titles]
    assert places == sorted(places)
    assert done.stdout.count("│ people") == 4 + 2
    assert done.stdout.index("Accuracy %, epsilon 1") > places[-1]


def test_a_line_has_mean_spread_and_error(folder: Path, fake: list[tuple[str, int]]) -> None:
    """Of 50, 52 and 54 % the mean is 52, the deviation 2, the standard error 1.2; no reference is known."""
    line = next(line for line in run(folder, "--splits", "3").stdout.splitlines() if "people" in line)
    assert [part.strip() for part in line.split("│")[1:8]] == ["people", "3", "52.0", "2.0", "1.2", "", ""]


def test_json_has_the_same_figures(folder: Path, fake: list[tuple[str, int]]) -> None:
    """Nothing but JSON is printed to stdout."""
    found = json.loads(run(folder, "--splits", "3", "--json", "--declare-rows", "--sets", "people,gone").stdout)
    assert found["declared"] == ["rows"]
    assert list(found["skipped"]) == ["gone"]
    assert [(one["set"], round(one["mean"], 6), one["band"]) for one in found["figures"]] == [("people", 52.0, 4.0)]


def test_missing_table_is_skipped_by_name(folder: Path, fake: list[tuple[str, int]]) -> None:
    """A table that is not in the folder is named on stderr, and the others run."""
    done = run(folder, "--sets", "nowhere,people", "--splits", "1")
    assert "nowhere is skipped: it is not in" in done.stderr
    assert "people" in done.stdout


@pytest.mark.parametrize(("group", "names"), GROUPS.items())
def test_groups_of_sets_have_names(folder: Path, fake: list[tuple[str, int]], group: str, names: Sequence[str]) -> None:
    """Every table of the group is run or named, and no other."""
    done = run(folder, "--sets", group, "--splits", "1")
    tried = [name for name in SETS if f"{name} is skipped" in done.stderr or f"│ {name} " in done.stdout]
    assert tried == list(names)


def test_real_sets_at_four_epsilons_are_the_default(folder: Path, fake: list[tuple[str, int]]) -> None:
    """Without words the default method is run on the real tables."""
    schemas = json.loads((folder / "schemas.json").read_text(encoding="utf-8"))
    (folder / "schemas.json").write_text(json.dumps({"iris": schemas["people"]}), encoding="utf-8")
    done = CliRunner().invoke(main, ["accuracy", "--data", str(folder), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert [(one["method"], one["epsilon"], one["set"], one["splits"]) for one in found["figures"]] == [
        (methods.DEFAULT, epsilon, "iris", 10) for epsilon in ("0.1", "0.5", "1", "2")
    ]
    assert set(found["skipped"]) == set(REAL) - {"iris"}


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    """Nothing to measure is an error with a next step."""
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "Try:   --data FOLDER" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "rdz"), 'there is no method "rdz". Did you mean'),
        (("--method", "rdt,rdz"), 'there is no method "rdz"'),
        (("--epsilon", "many"), "epsilon must be"),
        (("--splits", "few"), "splits must be auto"),
        (("--splits", "0"), "splits must be auto"),
        (("--param", "trees"), "param must be NAME=VALUE"),
        (("--param", "trees=0"), "trees must be"),
        (("--peer", "diffprivlib-forrest"), 'there is no peer "diffprivlib-forrest". Did you mean'),
        (("--method", "none"), "nothing to measure"),
        (("--plot", "picture.gif"), "plot must be a file that ends with .png"),
        (
            ("--method", "none", "--peer", "dpebm", "--peer-folder", "nowhere"),
            "python -m examples.benchmarks peers --install nowhere",
        ),
    ],
)
def test_wrong_words_are_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    """The error is told in one sentence, with exit code 2 and nothing on stdout."""
    done = run(folder, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_every_split_is_written_down(folder: Path) -> None:
    """With its key, 60 of 600 rows held out, and exactly epsilon spent."""
    run(folder, "--method", "rdt", "--splits", "2", "--csv", str(folder / "out.csv"), *QUICK)
    assert [(row["split"], row["rows"], row["spent"]) for row in written(folder)] == [
        ("0", "60", "1"),
        ("1", "60", "1"),
    ]
    assert {(row["method"], row["parameters"], row["declared"]) for row in written(folder)} == {
        ("rdt", "depth=2 trees=2", "")
    }


def test_what_is_written_down_is_not_run_again(folder: Path, fake: list[tuple[str, int]]) -> None:
    """Asking for three splits after two runs one more; another epsilon or parameter starts anew."""
    words = ("--csv", str(folder / "out.csv"), "--method", "rdt", "--splits")
    run(folder, *words, "2")
    fake.clear()
    run(folder, *words, "3")
    assert fake == [("rdt", 2)]
    for other in (("--epsilon", "2"), ("--param", "trees=3"), ("--declare-rows",), ("--widen", "5")):
        fake.clear()
        run(folder, *words, "1", *other)
        assert fake == [("rdt", 0)]


def test_a_killed_run_goes_on_where_it_stopped(folder: Path) -> None:
    """After a kill in the middle, with half a line written, the same command ends with every split once."""
    command = [sys.executable, "-m", "examples.benchmarks", "accuracy", "--data", str(folder), *ONE]
    command += ["--splits", "4", "--csv", str(folder / "out.csv"), *QUICK]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and (not (folder / "out.csv").exists() or len(written(folder)) < 1):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        process.kill()
    before = written(folder)
    assert before
    with (folder / "out.csv").open("a", encoding="utf-8") as file:
        file.write("rosnam,1,depth=2 tre")
    assert run(folder, "--splits", "4", "--csv", str(folder / "out.csv"), *QUICK).exit_code == 0
    after = written(folder)
    assert after[: len(before)] == before
    assert [row["split"] for row in after] == ["0", "1", "2", "3"]


def test_the_first_split_has_the_number_that_is_asked_for(folder: Path, fake: list[tuple[str, int]]) -> None:
    """Splits that no rule was chosen on have other numbers; the figures are of those alone."""
    words = ("--csv", str(folder / "out.csv"), "--method", "rdt", "--json")
    run(folder, *words, "--splits", "1")
    found = json.loads(run(folder, *words, "--splits", "2", "--first-split", "1000").stdout)["figures"][0]
    assert fake == [("rdt", 0), ("rdt", 1000), ("rdt", 1001)]
    assert (found["splits"], found["mean"]) == (2, 53.0)
    assert run(folder, *words, "--first-split", "-1").exit_code == 2


def test_two_processes_give_the_same_splits(folder: Path) -> None:
    """With --jobs 2 every split is there once; means do not depend on who ran it."""
    done = run(folder, "--splits", "2", "--jobs", "2", "--csv", str(folder / "out.csv"), *QUICK)
    assert done.exit_code == 0
    assert sorted(row["split"] for row in written(folder)) == ["0", "1"]


def test_auto_takes_more_splits_where_they_differ(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten splits that agree are enough; ten that differ by four points ask for more."""
    for spread, splits in ((0.0, 10), (0.04, 18)):
        monkeypatch.setattr(
            accuracy,
            "run_split",
            lambda table, split, spread=spread, **_: Outcome(0.5 + spread * (-1) ** split, 0.5, 60, 1, 2, "1"),
        )
        found = json.loads(run(folder, "--splits", "auto", "--json").stdout)["figures"][0]
        assert found["splits"] == splits


def test_another_reference_can_be_named(folder: Path, fake: list[tuple[str, int]]) -> None:
    """--reference compares with the figures of another method."""
    schemas = json.loads((folder / "schemas.json").read_text(encoding="utf-8"))
    (folder / "schemas.json").write_text(json.dumps({"iris": schemas["people"]}), encoding="utf-8")
    words = ("--sets", "iris", "--splits", "1", "--json")
    found = [json.loads(run(folder, *words, *more).stdout)["figures"][0] for more in ((), ("--reference", "auto"))]
    assert [one["reference"] for one in found] == [69.3, 91.1]
    assert found[0]["in_band"] == "one split"


def test_the_other_figures_are_written_down(folder: Path) -> None:
    """Balanced accuracy, AUC and Brier score are shares, the log loss and the seconds are positive."""
    run(folder, "--method", "rdt", "--splits", "1", "--csv", str(folder / "out.csv"), *QUICK)
    row = written(folder)[0]
    assert all(0 < float(row[name]) < 1 for name in ("balanced_accuracy", "auc", "brier"))
    assert all(float(row[name]) > 0 for name in ("log_loss", "seconds"))


def test_an_old_file_is_read_on(folder: Path, fake: list[tuple[str, int]]) -> None:
    """A file from before there were other figures keeps its splits; what they do not know is empty."""
    old = "rosnam,1,,,people,0,60,2,8,0.6,0.5,1\n"
    (folder / "out.csv").write_text(",".join(accuracy.OLD_COLUMNS) + "\n" + old, encoding="utf-8")
    found = json.loads(run(folder, "--splits", "2", "--json", "--csv", str(folder / "out.csv")).stdout)["figures"]
    assert fake == [("rosnam", 1)]
    assert (found[0]["mean"], found[0]["auc"]) == (pytest.approx(56.0), None)
    assert [(row["accuracy"], row["auc"]) for row in written(folder)] == [("0.6", ""), ("0.52", "")]


def test_nothing_is_run_when_only_a_look_is_asked_for(folder: Path, fake: list[tuple[str, int]]) -> None:
    """--no-run shows the splits that are there, and leaves out cells that have none."""
    words = ("--csv", str(folder / "out.csv"), "--json")
    run(folder, *words, "--splits", "2")
    fake.clear()
    found = json.loads(run(folder, *words, "--splits", "5", "--epsilon", "1,2", "--no-run").stdout)["figures"]
    assert [(one["epsilon"], one["splits"]) for one in found] == [("1", 2)]
    assert fake == []


def test_a_summary_is_written(folder: Path, fake: list[tuple[str, int]]) -> None:
    """One line for each cell, with its mean and standard error, that reads back."""
    run(folder, "--splits", "3", "--epsilon", "1,2", "--summary", str(folder / "summary.csv"))
    found = figures.read(folder / "summary.csv")
    assert [(one.epsilon, one.splits, one.mean) for one in found] == [("1", 3, 52.0), ("2", 3, 52.0)]
    assert found[0].standard_error == pytest.approx(2 / 3**0.5, abs=0.001)


def test_recorded_peers_stand_beside_a_method(folder: Path, fake: list[tuple[str, int]]) -> None:
    """On a table that they were measured on, at that epsilon; not with --no-peers, not for other domains or labels."""
    schemas = json.loads((folder / "schemas.json").read_text(encoding="utf-8"))
    (folder / "schemas.json").write_text(json.dumps({"iris": schemas["people"]}), encoding="utf-8")
    words = ("--sets", "iris", "--splits", "1")
    assert "diffprivlib-nb" in run(folder, *words).stdout
    beside = json.loads(run(folder, *words, "--json").stdout)["recorded_peers"]
    assert {(one["set"], one["epsilon"]) for one in beside} == {("iris", "1")}
    for other in (("--no-peers",), ("--widen", "5"), ("--labelled", "50")):
        assert "diffprivlib" not in run(folder, *words, *other).stdout


def test_references_are_those_of_the_tables() -> None:
    """A few figures of each table of `reference.csv`, by the names that methods have here."""
    known = references()
    assert known["rdt", 0.1, "votes"] == 70.6
    assert known["rosnam", 1, "nursery"] == 84.2
    assert known["snr", 2, "syn15d"] == 74.6
    assert known["sspe", 1, "car"] == 70.0
    assert known["auto", 0.5, "wine"] == 64.9
    assert ("mrf_batch_pred", 1, "adult") not in known


@pytest.mark.parametrize("method", ["rosnam", "rdt", "id3", "snr", "spe", "sspe", "maxtree", "fs_max", "auto"])
def test_references_are_known_for_every_set(method: str) -> None:
    """At epsilon 0.1, 1 and 2, also for methods that have variants: --reference names them."""
    assert all((method, epsilon, name) in references() for epsilon in (0.1, 1, 2) for name in SETS)


def test_a_key_names_everything_that_was_asked() -> None:
    """Two questions that differ in anything have different keys."""
    one = Question("rdt", "1")
    others = [
        Question("snr", "1"),
        Question("rdt", "2"),
        Question("rdt", "1", (("trees", 3),)),
        Question("rdt", "1", (), True),
        Question("rdt", "1", widen=5),
    ]
    assert all(one.key("iris", 0) != other.key("iris", 0) for other in others)
