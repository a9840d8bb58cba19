"""Samples: a step that looks at one part of the units, by ticket, costs what it says, and shows it."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.compile.count.leaves import Part
from dpsql.errors import ParameterError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose, Histograms, LeafCounts, Pick, Size
from dpsql.kernel.plan import Parallel, Plan, Sample, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.splits import two_way
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import EPSILON, held, session
from tests.tables import SCHEMA, UNITS, Row

MUCH = 10**14
ROOT = Forest(axes(SCHEMA), 1, ())
MANY: list[Row] = [(k, float(k % 64), "a", "yes") for k in range(3000)]


def test_a_sample_sees_its_share_of_the_rows() -> None:
    """One part of four holds about a quarter of 3,000 rows, another one for each session's keys."""
    sizes = [session(held(MANY), Sample(Step("n", Size(), MUCH), 4)).size("n") for _ in range(4)]
    # Five standard deviations of a binomial are 119 rows.
    assert all(abs(size - 750) < 119 for size in sizes)
    assert len(set(sizes)) > 1


def test_one_part_of_one_is_everything() -> None:
    """A sample of one part looks at all rows."""
    assert session(held(MANY), Sample(Step("n", Size(), MUCH), 1)).size("n") == 3000


def test_a_unit_is_wholly_in_or_out() -> None:
    """All three rows of a person are in the sample, or none of them."""
    rows: list[Row] = [(k // 3, 1.0, "a", "yes") for k in range(900)]
    opened = session(
        held(rows, schema=UNITS),
        Sequential((Sample(Step("n", Size(), MUCH), 3), Sample(Step("m", Size(), MUCH), 3))),
    )
    found = opened.size("n")
    assert found % 3 == 0
    assert 0 < found < 900
    # The same part of the same session: the same units, so that all its steps look at the same people.
    assert opened.size("m") == found


def test_histograms_choices_and_picks_look_at_the_sample() -> None:
    """Each operation of a sampled step counts the same part of the rows as a sampled size does."""
    splits = two_way(ROOT.axes)
    weights = np.zeros((1, 1, splits.most), np.int64)
    weights[0, 0, :1] = 1
    mixtures = Mixtures(
        VotingForest(ROOT, np.array([[0, 1, 0]])), np.zeros(1, int), np.array([[1]]), np.ones(1, np.int64)
    )
    steps = [
        Step("n", Size(), MUCH),
        Step("bins", Histograms(), MUCH, cells=64),
        Step("pick", Pick(), MUCH),
        Step("split", Choose("majority"), MUCH),
        Step("leaves", LeafCounts(), MUCH, cells=3),
    ]
    opened = session(held(MANY), Sequential(tuple(Sample(step, 5) for step in steps)))
    size = opened.size("n")
    assert opened.histograms("bins", ROOT, [1], by_class=False).sum() == size
    part = opened.step("pick").part, opened.step("pick").parts
    assert part == (0, 5)
    assert opened._rows.right_rows(mixtures, Part(*part)).tolist() == [size]
    assert opened.pick("pick", mixtures) == 0
    scores = opened._rows.scores(
        ROOT, Candidates(splits, np.ones((1, 1), np.int16), weights), [Part(*part)], Choose("majority"), shared=False
    )
    assert scores[0, 0] == size
    assert opened.leaf_counts("leaves", ROOT)[0].tolist() == [0, size, 0]


def test_a_sample_costs_what_its_step_costs() -> None:
    """That other units are not asked is not counted in their favour: the costs add up as for all rows."""
    step = Step("n", Size(), EPSILON)
    assert Sample(step, 8).cost == EPSILON
    assert Sequential((Sample(step, 8), Step("m", Size(), 5))).cost == EPSILON + 5


def test_the_noise_is_that_of_the_step() -> None:
    """A sample does not lower the noise: its scale is sensitivity over the step's epsilon."""
    plan = Plan("test", Sample(Step("n", Size(), EPSILON // 4), 8), Promise(UNITS.unit))
    assert plan.steps[0].scale(plan.promise) == 12


def test_the_plan_shows_the_sample() -> None:
    """`to_dict`, which the dry run prints and the ledger stores, says which part of how many is looked at."""
    plan = Plan("test", Sequential((Sample(Step("n", Size(), 5), 7), Step("m", Size(), 5))), Promise(SCHEMA.unit))
    shown = plan.to_dict()
    assert shown["composition"] == {"sequential": [{"one part of 7": "n"}, "m"]}
    assert shown["steps"][0]["part"] == "1 of 7"
    assert "part" not in shown["steps"][1]


def test_a_sample_of_a_parallel_part_stays_inside_it() -> None:
    """Parts of disjoint parts do not overlap: together they are a share of each."""
    halves = Parallel((Sample(Step("a", Size(), MUCH), 2), Step("b", Size(), MUCH)))
    opened = session(held(MANY), halves)
    assert [(step.part, step.parts) for step in opened.plan.steps] == [(0, 4), (1, 2)]
    one, other = opened.size("a"), opened.size("b")
    assert abs(one - 750) < 119
    assert abs(other - 1500) < 137


@pytest.mark.parametrize("of", [0, -1, True, 2.0, None])
def test_a_sample_of_no_whole_number_of_parts_is_refused(of: object) -> None:
    """The number of parts is a positive whole number."""
    with pytest.raises(ParameterError):
        Sample(Step("n", Size(), 5), of)  # type: ignore[arg-type]


def test_only_a_step_can_be_sampled() -> None:
    """A composition inside a sample could hide sides from the checks of a plan."""
    sides = Sides(Step("a", Size(), 5), Step("b", Size(), 5), disjoint=True)
    for part in (sides, Sequential((Step("a", Size(), 5),))):
        with pytest.raises(ParameterError):
            Sample(part, 2)  # type: ignore[arg-type]
