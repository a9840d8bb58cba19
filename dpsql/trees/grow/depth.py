"""How deep a random tree should be, from the schema alone.

Fletcher & Islam 2017, Theorem 2: with s continuous features, drawn with replacement, s·((s−1)/s)^d of them are expected
untested on a path of depth d; the depth is the smallest with fewer than half untested. For r discrete features, drawn
without replacement, r/2 is added. The paper's Table 4 lists this formula plus one wherever there are
continuous features; that is `table4`.
"""

from __future__ import annotations

RULES = ("theorem2", "table4")


def theorem2(continuous: int, discrete: int) -> int:
    """Return the depth of Theorem 2 plus r/2, at least 1.

    >>> [theorem2(s, 0) for s in (4, 5, 10, 15, 16, 20)], theorem2(6, 8), theorem2(0, 22)
    ([3, 4, 7, 11, 11, 14], 8, 11)
    """
    depth = 0
    if continuous:
        # s·((s−1)/s)^d < s/2 in whole numbers: 2·(s−1)^d < s^d
        while 2 * (continuous - 1) ** depth >= continuous**depth:
            depth += 1
    return max(1, depth + discrete // 2)


def table4(continuous: int, discrete: int) -> int:
    """Return the depth as Table 4 of the paper has it: Theorem 2 plus one where there are continuous features.

    >>> [table4(s, 0) for s in (4, 5, 10, 15, 16, 20)], table4(6, 8), table4(0, 22)
    ([4, 5, 8, 12, 12, 15], 9, 11)
    """
    return theorem2(continuous, discrete) + (1 if continuous else 0)
