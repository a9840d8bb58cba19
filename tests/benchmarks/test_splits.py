"""Tests of the splits that accuracy is measured on."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpsql.api import census
from dpsql.errors import UsageError
from dpsql.methods import rdt
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from examples.benchmarks.splits import SETS, Table, halves, run_split, synthetic, tables

PEOPLE = Table("people", {**census.SCHEMA, "rows": 600}, census.rows(600, seed=1))
QUICK = {"trees": 2, "depth": 2}


def test_a_tenth_is_held_out_and_every_row_is_in_one_part() -> None:
    """The two parts are disjoint and together the table."""
    train, test = halves(PEOPLE, 3)
    assert (len(train), len(test)) == (540, 60)
    assert sorted([*train.index, *test.index]) == list(range(600))


def test_split_numbers_draw_different_rows() -> None:
    """The same number draws the same rows, another number others."""
    drawn = [tuple(halves(PEOPLE, split)[1].index) for split in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_outcome_has_all_its_figures() -> None:
    """Accuracy and majority are shares, the forest is as asked, and exactly epsilon is spent."""
    outcome = run_split(PEOPLE, 0, method="rosnam", epsilon="0.5", parameters=QUICK)
    assert 0 < outcome.accuracy <= 1
    assert 0 < outcome.majority < 1
    assert (outcome.rows, outcome.depth, outcome.spent) == (60, 2, "0.5")
    assert outcome.leaves >= 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int, int]]:
    """Return the declared size, the trees and the seed of each forest that rdt grows in the test."""
    found: list[tuple[int | None, int, int]] = []
    original = rdt.random_trees

    def grown(schema: Schema, chosen: Mapping[str, Any], depth: int) -> Forest:
        found.append((schema.rows, chosen["trees"], chosen["seed"]))
        return original(schema, chosen, depth)

    monkeypatch.setattr(rdt, "random_trees", grown)
    return found


@pytest.mark.parametrize(("declared", "rows"), [(True, 540), (False, None)])
def test_the_size_is_declared_only_when_asked(asked: list[Any], declared: bool, rows: int | None) -> None:
    """The training rows are declared, or nothing; a size that stands in the data's own schema is not passed on."""
    run_split(PEOPLE, 0, method="rdt", epsilon="1", parameters={}, declare_rows=declared)
    sizes = {size for size, _, _ in asked}
    assert len(asked) == 2
    assert sizes == {rows} if declared else sizes != {len(PEOPLE.frame)}  # a size that is not declared is bought


def test_the_split_shapes_the_trees(asked: list[Any]) -> None:
    """The split's number is the seed, unless the parameters have one."""
    run_split(PEOPLE, 7, method="rdt", epsilon="1", parameters=QUICK)
    assert {seed for _, _, seed in asked} == {7}
    asked.clear()
    run_split(PEOPLE, 7, method="rdt", epsilon="1", parameters={**QUICK, "seed": 1})
    assert {seed for _, _, seed in asked} == {1}


def test_ranges_can_be_declared_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `widen` 5 a range from 16 to 96 is declared from -144 to 256; categories stay."""
    found: list[Schema] = []
    original = rdt.random_trees
    monkeypatch.setattr(rdt, "random_trees", lambda schema, *rest: found.append(schema) or original(schema, *rest))
    for widen in (1, 5):
        run_split(PEOPLE, 0, method="rdt", epsilon="1", parameters=QUICK, widen=widen)
    plain, wide = (
        dict(zip((f.name for f in one.features), one.features, strict=True)) for one in (found[0], found[-1])
    )
    assert (plain["age"].lower, plain["age"].upper) == (16, 96)
    assert (wide["age"].lower, wide["age"].upper) == (-144, 256)
    assert plain["sex"] == wide["sex"]


def test_a_method_without_a_seed_runs() -> None:
    """Method id3 takes no seed and gets none."""
    assert run_split(PEOPLE, 1, method="id3", epsilon="1", parameters={"depth": 1}).depth == 1


def test_missing_tables_are_named(tmp_path: Path) -> None:
    """In an empty folder every real table is missing, with the folder's name."""
    found, missing = tables(tmp_path, ["iris", "wine"])
    assert found == []
    assert missing == {"iris": f"it is not in {tmp_path}", "wine": f"it is not in {tmp_path}"}


def test_without_scikit_learn_synthetic_tables_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are skipped by name, and the reason is given."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tables(tmp_path, ["syn5d"]) == ([], {"syn5d": "scikit-learn is not installed"})


def test_a_broken_list_of_schemas_is_refused(tmp_path: Path) -> None:
    """A `schemas.json` that is not JSON is an error, not a folder without tables."""
    (tmp_path / "schemas.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match=r"schemas\.json"):
        tables(tmp_path, ["iris"])


@pytest.mark.parametrize(("name", "features"), [("syn5d", 5), ("syn10d", 10), ("syn15d", 15)])
def test_synthetic_tables_are_as_declared(name: str, features: int) -> None:
    """3000 rows, so many features, two classes of about equal size, 98 % of the values in the declared range."""
    pytest.importorskip("sklearn")
    table = synthetic(name)
    numbers = table.frame.drop(columns="label")
    assert numbers.shape == (3000, features)
    assert len(table.schema["features"]) == features
    assert 0.45 < table.frame["label"].mean() < 0.55
    assert (numbers.abs() <= 6).to_numpy().mean() > 0.98


def test_synthetic_tables_are_the_same_every_time() -> None:
    """The generator is seeded, with 0 unless the name says otherwise."""
    pytest.importorskip("sklearn")
    assert synthetic("syn5d").frame.equals(synthetic("syn5d:0").frame)
    assert not synthetic("syn5d").frame.equals(synthetic("syn5d:1").frame)


@pytest.mark.parametrize("name", ["syn5d:", "syn5d:x", "syn6d", "iris:1"])
def test_other_names_are_not_synthetic(name: str, tmp_path: Path) -> None:
    """A seed must be a number, and the table one of the three."""
    assert list(tables(tmp_path, [name])[1]) == [name]


def test_there_are_sixteen_sets() -> None:
    """The tables are those that reference figures are known for."""
    assert len(set(SETS)) == 16
