"""The depth of a random tree, against the figures of Fletcher & Islam 2017, Table 4."""

from __future__ import annotations

import pytest

from dpsql.trees.grow.depth import table4, theorem2

#: Table 4: dataset, continuous features, discrete features, depth as listed. Exact: depths are whole numbers.
TABLE_4 = [
    ("SynthA", 5, 0, 5),
    ("SynthB", 10, 0, 8),
    ("SynthC", 15, 0, 12),
    ("SynthD", 15, 0, 12),
    ("SynthE", 15, 0, 12),
    ("SynthF", 10, 0, 8),
    ("SynthG", 20, 0, 15),
    ("WallSensor", 4, 0, 4),
    ("PenWritten", 16, 0, 12),
    ("GammaTele", 10, 0, 8),
    ("Adult", 6, 8, 9),
    ("Mushroom", 0, 22, 11),
    ("Claves", 0, 16, 8),
    ("Nursery", 0, 8, 4),
]


@pytest.mark.parametrize(("name", "continuous", "discrete", "depth"), TABLE_4, ids=[row[0] for row in TABLE_4])
def test_table4_gives_the_papers_depths(name: str, continuous: int, discrete: int, depth: int) -> None:
    """The rule `table4` gives the depth that the paper lists for each of its 14 datasets."""
    assert table4(continuous, discrete) == depth


@pytest.mark.parametrize(("name", "continuous", "discrete", "depth"), TABLE_4, ids=[row[0] for row in TABLE_4])
def test_theorem2_is_one_less_with_continuous_features(name: str, continuous: int, discrete: int, depth: int) -> None:
    """The formula of Theorem 2 gives one level less than Table 4 wherever there are continuous features."""
    assert theorem2(continuous, discrete) == depth - (continuous > 0)


@pytest.mark.parametrize("continuous", [2, 3, 7, 50, 300])
def test_theorem2_is_the_smallest_depth_with_half_tested(continuous: int) -> None:
    """At that depth fewer than half of the continuous features are expected untested, one level higher not yet."""
    depth = theorem2(continuous, 0)
    untested = [continuous * ((continuous - 1) / continuous) ** level for level in (depth - 1, depth)]
    assert untested[1] < continuous / 2 <= untested[0]


@pytest.mark.parametrize(("continuous", "discrete"), [(1, 0), (0, 1), (0, 0)])
def test_a_tree_has_at_least_one_level(continuous: int, discrete: int) -> None:
    """The smallest schemas still get a depth of one."""
    assert theorem2(continuous, discrete) == 1
