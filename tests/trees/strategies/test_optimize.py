"""Choosing a strategy: never worse than every cell, proved errors that noise confirms, memory and disk, time limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.trees.strategies import optimize
from dpsql.trees.strategies.effort import PER_UNIT, Effort
from dpsql.trees.strategies.least_squares import least_squares
from dpsql.trees.strategies.optimize import KINDS, MIN_IMPROVEMENT, BestStrategy, best_strategy
from dpsql.trees.strategies.strategy import Floats, Partition
from dpsql.trees.strategies.workload import Leaves, Sums, Workload, reached_leaves, vote_workload
from tests.mechanisms.oracles import seeded
from tests.trees.strategies.test_marginals import true_error, true_spread
from tests.trees.strategies.test_strategy import dense
from tests.trees.strategies.test_workload import grown, some_sums, square

#: Leaves of few features: all of them gain by marginals.
SHALLOW: dict[str, Leaves] = {
    "one level": grown((4, 4, 4), trees=20, depth=1),
    "two levels": grown((5, 5, 5, 5), trees=20, depth=2),
    "thresholds": grown((5, 5, 5), trees=20, depth=2, thresholds=True),
}
#: Leaves that are nearly cells.
DEEP: dict[str, Leaves] = {
    "all features": grown((3, 4, 5), trees=20, depth=3),
    "most features": grown((4, 4, 4, 4), trees=20, depth=3),
    "thresholds": grown((5, 5, 5), trees=20, depth=8, thresholds=True),
}
WORKLOADS: dict[str, Workload] = {
    **{f"shallow, {name}": one for name, one in SHALLOW.items()},
    **{f"deep, {name}": one for name, one in DEEP.items()},
    "sums": some_sums((2, 3, 2)),
    "votes": vote_workload(grown((3, 4, 5), trees=8), np.arange(0, 60, 7)),
    "reached": reached_leaves(grown().leaf, grown().leaves, np.arange(5)),
    "one feature": grown((6,), trees=4, depth=3, thresholds=True),
}
EACH = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test with no strategy in memory and none on disk."""
    monkeypatch.setattr(optimize, "_cache", {})
    monkeypatch.delenv("DPSQL_CACHE", raising=False)


@EACH
def test_the_winner_is_never_worse_than_every_cell(workload: Workload) -> None:
    """Asking for every cell is tried first, and only something clearly better takes its place."""
    found = best_strategy(workload)
    assert found.identity_error == pytest.approx(np.trace(square(workload)))
    assert found.error <= found.identity_error * (1 + 1e-12)
    assert (found.strategy.name == "identity") == (found.ratio > 1 - MIN_IMPROVEMENT)


@EACH
def test_the_spread_is_that_of_the_matrices(workload: Workload) -> None:
    """The winner's spread is tr(WᵀW·(AᵀA)⁺) of the whole numbers that are asked, and its error follows."""
    found = best_strategy(workload)
    assert found.spread == pytest.approx(true_spread(workload, found.strategy), rel=1e-7)
    assert found.error == pytest.approx(true_error(workload, found.strategy), rel=1e-7)


@EACH
def test_the_winner_determines_the_workload(workload: Workload) -> None:
    """From exact answers the sums of the workload come back, whether or not the cells do."""
    found = best_strategy(workload).strategy
    assert isinstance(workload, Leaves | Sums)
    counts = np.random.default_rng(1).integers(0, 50, (workload.cells, 2)).astype(np.float64)
    cells = least_squares(found, found.answer(counts))
    np.testing.assert_allclose(workload.answer(cells), workload.answer(counts), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("workload", SHALLOW.values(), ids=SHALLOW)
def test_shallow_trees_gain_by_marginals(workload: Leaves) -> None:
    """Trees of one or two levels have less error than with every cell."""
    found = best_strategy(workload)
    assert found.strategy.name == "marginals"
    assert found.ratio < 0.95


@pytest.mark.parametrize("workload", DEEP.values(), ids=DEEP)
def test_deep_trees_ask_for_every_cell(workload: Leaves) -> None:
    """Where leaves are nearly cells nothing is clearly better."""
    found = best_strategy(workload)
    assert (found.strategy.name, found.strategy.sensitivity, found.ratio) == ("identity", 1, 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", [SHALLOW["one level"], DEEP["all features"]], ids=["shallow", "deep"])
def test_each_kind_works_alone(workload: Leaves, kind: str) -> None:
    """A named kind is what is taken, better or not, and its error is that of the matrices."""
    found = best_strategy(workload, kind=kind)
    assert found.strategy.name == kind
    assert [one.kind for one in found.tried] == [kind]
    assert found.error == pytest.approx(true_error(workload, found.strategy), rel=1e-6)
    assert found.tried[0].ratio == pytest.approx(found.ratio)


def test_the_best_is_the_best_of_all_kinds() -> None:
    """What wins has the smallest error of those that were tried, or one that is not clearly larger."""
    for workload in (SHALLOW["thresholds"], DEEP["all features"]):
        ratios = [best_strategy(workload, kind=kind).ratio for kind in KINDS]
        found = best_strategy(workload)
        assert [one.kind for one in found.tried] == list(KINDS)
        assert [one.ratio for one in found.tried] == pytest.approx(ratios)
        assert found.ratio * (1 - MIN_IMPROVEMENT) <= min(ratios)


def test_trees_are_no_kind_for_other_sums() -> None:
    """Sums have no trees: the identity, marginals and p-identity are tried."""
    found = best_strategy(some_sums((2, 3, 2)))
    assert [one.kind for one in found.tried] == ["identity", "marginals", "pidentity"]


def test_a_kind_that_does_not_apply_leaves_the_identity() -> None:
    """Sums over no product have no marginals; what is asked then is every cell."""
    found = best_strategy(Sums((), np.eye(4)), kind="marginals")
    assert (found.strategy.name, found.ratio) == ("identity", 1.0)
    assert [(one.kind, one.ratio) for one in found.tried] == [("marginals", None)]


@EACH
def test_no_effort_still_gives_a_strategy(workload: Workload) -> None:
    """With an effort of 0 the first kind is what is left."""
    found = best_strategy(workload, effort=0)
    assert (found.strategy.name, found.ratio) == ("identity", 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_effort_still_gives_a_strategy_of_any_kind(kind: str) -> None:
    """A named kind is not looked for any further than its start, but what it gives determines the workload."""
    workload = DEEP["all features"]
    found = best_strategy(workload, kind=kind, effort=0)
    assert found.strategy.name == kind
    assert found.error == pytest.approx(true_error(workload, found.strategy), rel=1e-6)


def test_progress_names_what_is_tried() -> None:
    """Each kind is told before it is looked for; what is known already is not looked for."""
    told: list[str] = []
    best_strategy(grown(), progress=told.append)
    assert told == list(KINDS)
    best_strategy(grown(), progress=told.append)
    assert told == list(KINDS)


def test_found_twice_is_the_same_object() -> None:
    """The same trees have one strategy for all of a process; another kind, or other trees, have another."""
    first = best_strategy(grown())
    assert best_strategy(grown()) is first
    assert best_strategy(grown(), kind="marginals") is not first
    assert best_strategy(grown(seed=2)) is not first


def test_looked_for_twice_is_the_same_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search has no chance in it: without memory the same questions are found again."""
    found = []
    for _ in range(2):
        monkeypatch.setattr(optimize, "_cache", {})
        found.append(best_strategy(SHALLOW["thresholds"]))
    assert found[0] is not found[1]
    assert alike(*found)


def alike(one: BestStrategy, other: BestStrategy) -> bool:
    """Whether two searches found the same questions with the same error."""
    same = one.strategy.name == other.strategy.name and one.spread == other.spread
    return same and np.array_equal(dense(one.strategy), dense(other.strategy))


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_what_is_on_disk_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """Another process finds questions, error and what was tried in the folder, and does not look again."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path / "new" / "folder"))
    workload = SHALLOW["one level"]
    first = best_strategy(workload, kind=kind)
    told: list[str] = []
    monkeypatch.setattr(optimize, "_cache", {})
    again = best_strategy(workload, kind=kind, progress=told.append)
    assert told == []
    assert again is not first
    assert alike(first, again)
    assert (again.error, again.ratio) == (first.error, first.ratio)
    assert [(one.kind, one.ratio) for one in again.tried] == [(one.kind, one.ratio) for one in first.tried]
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1


def test_other_workloads_have_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One file for each workload and kind."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    for seed, kind in itertools.product((1, 2), ("", "identity")):
        best_strategy(grown(seed=seed), kind=kind)
    assert len(list(tmp_path.iterdir())) == 4


def test_without_a_folder_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no folder is named, or an empty name, nothing is on disk."""
    monkeypatch.chdir(tmp_path)
    best_strategy(grown())
    monkeypatch.setenv("DPSQL_CACHE", "")
    best_strategy(grown(seed=2))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file in the folder's place leaves the strategy in memory alone."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path / "file"))
    assert best_strategy(grown()).error > 0
    assert (tmp_path / "file").read_text() == "not a folder"


def only_file(folder: Path) -> Path:
    """Return the one file of a folder."""
    (found,) = folder.iterdir()
    return found


BROKEN = {"text": b"no strategy at all", "no numbers": b"\x93NUMPY", "nothing": b"", "cut": b"PK\x03\x04"}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    """What cannot be read is looked for again, and written anew."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    first = best_strategy(SHALLOW["one level"])
    only_file(tmp_path).write_bytes(content)
    monkeypatch.setattr(optimize, "_cache", {})
    assert alike(best_strategy(SHALLOW["one level"]), first)
    monkeypatch.setattr(optimize, "_cache", {})
    told: list[str] = []
    best_strategy(SHALLOW["one level"], progress=told.append)
    assert told == []


@pytest.mark.parametrize("missing", ["spread", "tried", "name", "0_weight"])
def test_a_file_that_lacks_something_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    """A file of other arrays than were written is looked for again."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    first = best_strategy(SHALLOW["one level"])
    file = only_file(tmp_path)
    with np.load(file) as held:
        kept = {name: held[name] for name in held if name != missing}
    np.savez(file, **kept)
    monkeypatch.setattr(optimize, "_cache", {})
    told: list[str] = []
    assert alike(best_strategy(SHALLOW["one level"], progress=told.append), first)
    assert told == list(KINDS)


def test_a_changed_file_still_has_a_true_sensitivity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file costs accuracy at worst: the sensitivity is that of the numbers in it, whatever was written beside."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    best_strategy(grown(), kind="identity")
    file = only_file(tmp_path)
    with np.load(file) as held:
        kept = dict(held)
    kept["0_weight"] = kept["0_weight"] * 50
    np.savez(file, **kept)
    monkeypatch.setattr(optimize, "_cache", {})
    found = best_strategy(grown(), kind="identity").strategy
    assert isinstance(found.blocks[0], Partition)
    assert found.sensitivity == np.abs(dense(found)).sum(axis=0).max() == 50


#: How often each answer is drawn.
DRAWS = 1000


def measured(workload: Leaves, found: BestStrategy, scale: Fraction, seed: int) -> Floats:
    """Return for each draw the summed squares that noise of a scale leaves on the leaves."""
    size = found.strategy.questions * DRAWS
    noise = discrete_laplace(scale, size, entropy=seeded(seed)).reshape(-1, DRAWS).astype(np.float64)
    leaves: Floats = workload.answer(least_squares(found.strategy, noise))
    return np.asarray((leaves**2).sum(axis=0))


def variance(scale: Fraction) -> float:
    """Return the exact variance of discrete Laplace noise."""
    ratio = math.exp(-1 / float(scale))
    return 2 * ratio / (1 - ratio) ** 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(3, 2)], ids=["much noise", "little noise"])
def test_noise_leaves_the_error_that_was_proved(kind: str, epsilon: Fraction) -> None:
    """Over 1,000 draws the leaves' error is spread × variance within 5 %, many standard errors; 15 % off is seen."""
    workload = SHALLOW["two levels"] if kind == "marginals" else grown((5, 5, 6), trees=8, depth=2)
    found = best_strategy(workload, kind=kind)
    scale = found.strategy.sensitivity / epsilon
    wanted = found.spread * variance(scale)
    ratios = measured(workload, found, scale, seed=KINDS.index(kind)) / wanted
    assert 4 * ratios.std() / math.sqrt(DRAWS) < 0.05
    assert abs(ratios.mean() - 1) < 0.05
    assert abs(ratios.mean() * 1.15 - 1) > 0.05
    assert abs(ratios.mean() / 1.15 - 1) > 0.05


def test_the_winner_has_less_noise_than_every_cell() -> None:
    """What the search promises is what noise shows: at one epsilon, leaves of shallow trees have less error."""
    workload = SHALLOW["one level"]
    best, every = best_strategy(workload), best_strategy(workload, kind="identity")
    errors = [measured(workload, one, Fraction(3 * one.strategy.sensitivity), seed=9).mean() for one in (best, every)]
    assert errors[0] / errors[1] == pytest.approx(best.ratio, rel=0.1)
    assert best.ratio < 0.5


def test_an_unknown_kind_is_refused() -> None:
    """A kind that there is not is named, not taken for another."""
    with pytest.raises(ParameterError, match="identity"):
        best_strategy(SHALLOW["one level"], kind="no such kind")


def test_whoever_watches_is_told_what_is_tried() -> None:
    """Within the block the kinds are named in order, after it nobody is told; what is known is not tried again."""
    told: list[str] = []
    workload = grown((3, 2, 3), trees=7, depth=2)
    with optimize.watch_search(told.append):
        best_strategy(workload)
    assert told == list(KINDS)
    with optimize.watch_search(told.append):
        best_strategy(workload)
    best_strategy(grown((3, 2, 3), trees=6, depth=2))
    assert told == list(KINDS)


def test_more_effort_looks_again() -> None:
    """What a short search found is not handed out to whoever allows a longer one."""
    workload = grown((3, 3, 2), trees=9, depth=2)
    short = best_strategy(workload, effort=0)
    told: list[str] = []
    longer = best_strategy(workload, effort=20, progress=told.append)
    assert told == list(KINDS)
    assert longer is not short
    assert longer.error <= short.error


def test_effort_bounds_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds together spend at most the effort, but for the one evaluation that was under way."""
    spent: list[int] = []
    spend = Effort.spend

    def count(self: Effort, multiplications: int) -> None:
        spent.append(multiplications)
        spend(self, multiplications)

    monkeypatch.setattr(Effort, "spend", count)
    workload = grown((4, 4, 4, 4), trees=40, depth=2)
    for effort in (1, 3):
        spent.clear()
        best_strategy(workload, effort=effort)
        assert 0 < sum(spent) <= effort * PER_UNIT + max(spent)


def test_a_kind_that_cannot_start_is_passed_over() -> None:
    """Where the effort does not allow its first step, a kind is not tried, unless it is the one that was asked for."""
    workload = grown((5, 5, 5, 5), trees=40, depth=2)
    assert workload.eigenvalues_work < PER_UNIT < 6 * workload.eigenvalues_work
    assert [one.kind for one in best_strategy(workload, effort=0).tried] == ["identity"]
    assert [one.kind for one in best_strategy(workload, kind="trees", effort=0).tried] == ["trees"]
