"""Says how many trees a forest has, the same wherever trees are counted: `18 trees (13 of one feature, 5 deep)`.

Method `auto` reads each feature by a tree of its own beside a few deep ones; both kinds are trees of the model.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.forest import PASS, Forest


def trees_of_one_feature(forest: Forest) -> int:
    """Return how many trees read one feature or none."""
    tree, read = np.arange(forest.trees), np.zeros((forest.trees, len(forest.axes)), bool)
    for level in forest.levels:
        split = level.axis != PASS
        read[tree[split], level.axis[split]] = True
        tree = np.repeat(tree, level.arity)
    feature = np.array([axis.feature for axis in forest.axes])
    of_feature = [read[:, feature == number].any(axis=1) for number in np.unique(feature)]
    return int((np.sum(of_feature, axis=0) <= 1).sum())


def count_text(trees: int, of_one_feature: int) -> str:
    """Return the number of trees in words; the kinds are told where a forest has both.

    >>> count_text(18, 13), count_text(13, 13), count_text(1, 0), count_text(50, 0)
    ('18 trees (13 of one feature, 5 deep)', '13 trees of one feature', '1 tree', '50 trees')
    """
    words = "1 tree" if trees == 1 else f"{trees} trees"
    if of_one_feature in (0, trees):
        return f"{words} of one feature" if of_one_feature and trees > 1 else words
    return f"{words} ({of_one_feature} of one feature, {trees - of_one_feature} deep)"


def forest_count_text(forest: Forest) -> str:
    """Return the number of a forest's trees in words."""
    return count_text(forest.trees, trees_of_one_feature(forest))
