"""How a large forest is counted in several statements, so that memory stays bounded.

The division follows from the trees alone, which are public: it tells nothing about rows.
"""

from __future__ import annotations

from dpsql.trees.forest import Forest

#: The most (leaf, class) groups that one statement may have. A forest with more is counted a few trees at a time.
GROUPS_PER_STATEMENT = 2**22


def tree_ranges(forest: Forest, classes: int) -> list[tuple[int, int]]:
    """Return ranges (first, last) of trees, `last` excluded, each of which fits into one statement.

    >>> from dpsql.trees.grow.random_trees import random_forest
    >>> from dpsql.trees.grid import Axis
    >>> tree_ranges(random_forest((Axis(0, 0, 64, 64, ordered=True),), trees=3, depth=2, seed=1), 2)
    [(0, 3)]
    """
    ranges = []
    first = 0
    for tree in range(1, forest.trees + 1):
        full = (forest.first_leaf[min(tree + 1, forest.trees)] - forest.first_leaf[first]) * classes
        if tree == forest.trees or full > GROUPS_PER_STATEMENT:
            ranges.append((first, tree))
            first = tree
    return ranges
