"""Tests of `python -m examples.benchmarks matrix` on small tables of our own that bear the names of the paper's."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from dpsql.trees.strategies.optimize import KINDS, best_strategy
from dpsql.trees.strategies.workload import Sums
from examples.benchmarks import matrix
from examples.benchmarks.__main__ import main
from examples.benchmarks.matrix import EPSILONS, LINES, QUERIES, SETTINGS, TREES, Panel
from examples.benchmarks.matrix_commands import draw
from examples.benchmarks.splits import Table, run_split

PLOTS = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")


def iris(rows: int = 300) -> Table:
    """Return a table of three numbers, where the first two lead to the class."""
    numbers = np.random.default_rng(1).random((rows, 3))
    frame = pd.DataFrame(numbers, columns=["x0", "x1", "x2"])
    frame["kind"] = np.where(frame.x0 < 0.4, "a", np.where(frame.x1 < 0.5, "b", "c"))
    features = {name: {"type": "numeric", "lower": 0, "upper": 1} for name in ("x0", "x1", "x2")}
    return Table("iris", {"label": "kind", "classes": ["a", "b", "c"], "features": features}, frame)


def car(rows: int = 120) -> Table:
    """Return a table of three categories, where the first is the class."""
    drawn = np.random.default_rng(2).choice(["u", "v", "w"], (rows, 3))
    frame = pd.DataFrame(drawn, columns=["c0", "c1", "c2"])
    frame["good"] = np.where(frame.c0 == "u", "yes", "no")
    features = {name: {"type": "categorical", "values": ["u", "v", "w"]} for name in ("c0", "c1", "c2")}
    return Table("car", {"label": "good", "classes": ["no", "yes"], "features": features}, frame)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with both tables."""
    made = tmp_path_factory.mktemp("data")
    schemas = {}
    for table in (iris(), car()):
        with duckdb.connect() as connection:
            connection.register("rows_of_it", table.frame)
            connection.execute("COPY rows_of_it TO ? (FORMAT parquet)", [str(made / f"{table.name}.parquet")])
        schemas[table.name] = {**table.schema, "file": f"{table.name}.parquet"}
    (made / "schemas.json").write_text(json.dumps(schemas), encoding="utf-8")
    return made


def bench(folder: Path, *words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["matrix", "--data", str(folder), *words], catch_exceptions=False)


# Errors of strategies.


@pytest.fixture(scope="module")
def errors(folder: Path) -> list[dict[str, Any]]:
    """Return what `--what errors --json` says of both tables."""
    done = bench(folder, "--what", "errors", "--sets", "iris,car", "--draws", "300", "--effort", "20", "--json")
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["errors"]
    return found


def test_errors_tell_leaves_and_votes_of_each_table(errors: list[dict[str, Any]]) -> None:
    """Each table has a line for training and one for a batch, over the cells of its features."""
    cells = {"iris": SETTINGS["iris"]["bins"] ** 3, "car": 3**3}
    assert [(one["set"], one["workload"], one["cells"]) for one in errors] == [
        (name, what, cells[name]) for name in ("iris", "car") for what in ("leaves", "votes")
    ]
    assert all(one["cpu_seconds"] >= 0 for one in errors)


def test_the_best_strategy_is_never_worse_than_every_cell(errors: list[dict[str, Any]]) -> None:
    """Its error over that of asking for every cell is at most 1, and it is the smallest but for the margin."""
    for one in errors:
        tried = {kind: ratio for kind, ratio in one["ratios"].items() if ratio is not None}
        assert tuple(one["ratios"]) == KINDS
        assert tried["identity"] == pytest.approx(1)
        assert 0 < one["ratio"] <= 1 + 1e-9
        assert one["ratio"] == pytest.approx(tried[one["best"]])
        assert one["ratio"] <= min(tried.values()) / 0.99 + 1e-9


def test_noise_on_every_leaf_is_far_worse(errors: list[dict[str, Any]]) -> None:
    """For trees, noise on all leaves is what the paper is better than; for votes of a batch it is not tried."""
    for one in errors:
        assert (one["ratios"]["leaves"] is None) == (one["workload"] == "votes")
        assert one["workload"] == "votes" or one["ratios"]["leaves"] > 10


def sides() -> Sums:
    """Return the sums of a cube of 216 cells along each side: what marginals are best for."""
    values = np.unravel_index(np.arange(216), (6, 6, 6))
    return Sums((6, 6, 6), np.array([side == value for side in values for value in range(6)]).astype(np.float64))


@pytest.mark.parametrize(
    ("asked", "kind", "draws"), [(Sums((), np.eye(200)), "identity", 300), (sides(), "marginals", 3000)]
)
def test_drawn_errors_are_the_proved_ones(asked: Sums, kind: str, draws: int) -> None:
    """The squared error of drawn noise is what the closed form says within 10 %; a spread 30 % off is seen.

    Of 50,000 squares of noise or more, whose relative spread is √5, the mean varies by 1 %.
    """
    found = best_strategy(asked, kind=kind, effort=20)
    assert found.strategy.name == kind
    assert matrix.error_ratio(asked, found.strategy, found.spread, draws) == pytest.approx(1, rel=0.1)
    for wrong in (0.7, 1.3):
        assert matrix.error_ratio(asked, found.strategy, wrong * found.spread, draws) != pytest.approx(1, rel=0.1)


def test_drawn_errors_of_tables_are_the_proved_ones() -> None:
    """So they are for the leaves and the votes of a table, with so many draws that chance is near 1 %."""
    for one in matrix.errors(iris(), draws=10_000, effort=20):
        assert one["measured_to_proved"] == pytest.approx(1, rel=0.1)


def test_errors_are_printed_as_a_table(folder: Path) -> None:
    """Without `--json` there is a line for each table and workload, with a column for each kind."""
    done = bench(folder, "--sets", "iris", "--draws", "10", "--effort", "20")
    assert done.exit_code == 0
    assert "Error of each strategy" in done.stdout
    assert done.stdout.count("│ iris") == 2
    assert all(kind in done.stdout for kind in (*KINDS, "drawn / proved"))


# Which tables.


def test_unknown_sets_are_skipped_by_name(folder: Path) -> None:
    """A table that is not in the folder is named on stderr, and the others run."""
    done = bench(folder, "--sets", "nowhere,iris", "--draws", "10", "--effort", "20", "--json")
    assert done.exit_code == 0
    assert "nowhere is skipped: it is not in" in done.stderr
    assert {one["set"] for one in json.loads(done.stdout)["errors"]} == {"iris"}


def test_the_tables_of_the_paper_are_the_default(folder: Path) -> None:
    """Without `--sets` each of them is run or named."""
    done = bench(folder, "--draws", "10", "--effort", "20", "--json")
    assert {one["set"] for one in json.loads(done.stdout)["errors"]} == {"iris", "car"}
    assert [name for name in SETTINGS if f"{name} is skipped" in done.stderr] == [
        name for name in SETTINGS if name not in ("iris", "car")
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sets", "nowhere"), "none of the tables can be had"),
        (("--what", "speed"), "'speed' is not one of 'errors', 'figures', 'cost'"),
        (("--draws", "0"), "--draws"),
        (("--plot", "picture.png"), "only figures are drawn"),
        (("--what", "figures", "--plot", "picture.gif"), "plot must be a file that ends with .png"),
    ],
)
def test_wrong_words_are_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    """The error is told in one sentence, with exit code 2 and nothing on stdout."""
    done = bench(folder, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


# Cost.


def test_cost_is_in_seconds(folder: Path) -> None:
    """`--what cost` says how long strategies, counting, noise and the rest take, as JSON and as a table."""
    words = ("--what", "cost", "--sets", "iris")
    [found] = json.loads(bench(folder, *words, "--json").stdout)["cost"]
    assert list(found) == ["set", "rows", "optimise", "count", "noise", "rest"]
    assert all(found[part] > 0 for part in ("optimise", "count", "noise", "rest"))
    assert "Cost, seconds" in bench(folder, *words).stdout


# The paper's figures.


def test_panels_are_those_of_the_paper() -> None:
    """Figure 2 has a panel for each table, over epsilon; 3a and 4 are of car, over trees and epsilon."""
    found = matrix.panels(["iris", "car"])
    assert [(one.title, one.table, one.along) for one in found] == [
        ("2: iris", "iris", "epsilon"),
        ("2: car", "car", "epsilon"),
        ("3a: car, epsilon 2", "car", "trees"),
        ("4: car, 16 trees", "car", "epsilon"),
    ]
    assert [one.title for one in matrix.panels(["iris"])] == ["2: iris"]


def points(panel: Panel, line: str) -> list[tuple[float, str, dict[str, Any]]]:
    """Return the points of a line: where they stand, their epsilon and parameters."""
    assert {question.method for _, question in panel.points[line]} == {"mrf"}
    return [(at, question.epsilon, dict(question.parameters)) for at, question in panel.points[line]]


def test_figure_2_has_the_papers_settings() -> None:
    """Every line has a point for each epsilon, with the trees and depth of the table."""
    [panel] = matrix.panels(["iris"])
    assert tuple(panel.points) == tuple(LINES)
    for line, more in LINES.items():
        assert points(panel, line) == [(float(one), one, {**SETTINGS["iris"], **more}) for one in EPSILONS]


def test_figure_3a_grows_in_trees() -> None:
    """At epsilon 2 trees run from 4 to 128, for training alone."""
    panel = matrix.panels(["car"])[1]
    assert "batch prediction" not in panel.points
    for line in panel.points:
        assert [(at, epsilon, asked["trees"]) for at, epsilon, asked in points(panel, line)] == [
            (trees, "2", trees) for trees in TREES
        ]


def test_figure_4_compares_two_ways() -> None:
    """Disjoint trees stand beside trees that see all rows, 16 of each."""
    panel = matrix.panels(["car"])[2]
    ways = {line: {asked["way"] for _, _, asked in points(panel, line)} for line in panel.points}
    assert ways == {"subsample and aggregate": {"subsample"}, "batch prediction": {"batch"}}
    assert {asked["trees"] for line in panel.points for _, _, asked in points(panel, line)} == {16}


def test_queries_have_a_row_for_each_size() -> None:
    """Figure 3b: accuracy in percent and its error, for batches of growing size."""
    found = matrix.queries(car(), (5, 40), splits=2)
    assert [one["queries"] for one in found] == [5, 40]
    assert all(0 <= one["mean"] <= 100 and one["standard_error"] >= 0 for one in found)
    assert found[1]["mean"] > 70  # the class is a feature: epsilon 2 and 120 rows are plenty
    assert list(QUERIES) == sorted(QUERIES)


def test_one_split_has_no_spread() -> None:
    """The error of a single split is 0, not a number that is none."""
    [found] = matrix.queries(car(), (5,), splits=1)
    assert found["standard_error"] == 0


@pytest.mark.parametrize("way", ["batch", "subsample"])
def test_a_split_can_be_a_batch(way: str) -> None:
    """With a `way` the tenth that is held out is labelled privately, for exactly epsilon."""
    asked = {"trees": 4, "depth": 1, "strategy": "identity", "way": way}
    found = run_split(car(), 0, method="mrf", epsilon="2", parameters=asked)
    assert (found.spent, found.rows, found.depth) == ("2", 12, 1)
    assert 0 <= found.accuracy <= 1


@PLOTS
def test_figures_are_run_written_and_drawn(folder: Path, tmp_path: Path) -> None:
    """`--what figures` gives a line for each point, writes splits and a picture; asked again it runs none anew."""
    out = tmp_path / "splits.csv"
    words = ("--what", "figures", "--sets", "iris", "--splits", "1", "--csv", str(out), "--json")
    done = bench(folder, *words, "--plot", str(tmp_path / "deep" / "figures.png"))
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)["figures"]
    assert [(one["panel"], one["line"], one["at"]) for one in found] == [
        ("2: iris", line, float(epsilon)) for line in LINES for epsilon in EPSILONS
    ]
    assert all(0 <= one["mean"] <= 100 and one["standard_error"] == 0 for one in found)
    assert (tmp_path / "deep" / "figures.png").read_bytes().startswith(b"\x89PNG")
    with out.open(newline="", encoding="utf-8") as file:
        splits = list(csv.DictReader(file))
    assert len(splits) == len(found)
    assert all(one["spent"] == one["epsilon"] for one in splits)
    before = out.read_bytes()
    assert json.loads(bench(folder, *words).stdout)["figures"] == found
    assert out.read_bytes() == before


@PLOTS
@pytest.mark.parametrize("count", [1, 4, 6])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_holds_any_number_of_panels(tmp_path: Path, count: int, ending: str) -> None:
    """Of lines that not every panel has, too."""
    lines = [
        {"panel": f"2: set{panel}", "line": line, "along": "epsilon", "at": at, "mean": 50.0, "standard_error": 1.0}
        for panel in range(count)
        for line in ("training", "batch")[: 1 + panel % 2]
        for at in (0.1, 1.0)
    ]
    draw(tmp_path / f"picture.{ending}", lines)
    data = (tmp_path / f"picture.{ending}").read_bytes()
    assert data.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    if ending == "svg":
        assert all(f"2: set{panel}".encode() in data for panel in range(count))
