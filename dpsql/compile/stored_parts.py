"""The stored partition column: a whole number that says which part a row is in, and part t is tree t.

A value from 0 to parts − 1 is its part. Every other value, and NULL, is part 0. Where there are fewer trees than parts,
part p is in tree p mod trees. This rule is public, and simple enough to stand in a readable query.

Proof that privacy does not rest on what the column holds: a row's tree follows from that row alone. The row adds to one
tree and to no other, and another unit moves no row. That is all that the proofs of `kernel/operations.py` and
`kernel/noise.py` ask of disjoint trees: they add up what each of a unit's rows changes, whichever tree it is in. Parts
of the *units* (parallel steps, samples, sides) need more, that all rows of a unit are in the same part; they are told
apart by the ticket, a hash of the unit, to which this column adds nothing. So a column that is declared to be a
function of the unit, and is none, costs accuracy and no privacy.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.compile.vocabulary import case, int_literal, paren

#: The name of a packed row's stored part.
PART = "part"


def stored_part(value: exp.Expr, parts: int) -> exp.Expr:
    """Return the part of a row, from 0 to `parts` − 1, whatever its cell holds.

    >>> stored_part(exp.column("p"), 10).sql()
    'CASE WHEN p BETWEEN 1 AND 9 THEN p ELSE 0 END'
    """
    if parts == 1:
        return int_literal(0)
    return case([(_in_range(value, parts), value.copy())], int_literal(0))


def tree_of_part(part: exp.Expr, parts: int, trees: int) -> exp.Expr:
    """Return the tree of a part: the part itself, or its remainder where there are fewer trees than parts."""
    return part if trees == parts else exp.Mod(this=part, expression=int_literal(trees))


def in_tree(value: exp.Expr, parts: int, trees: int, tree: int) -> exp.Expr | None:
    """Return the readable test that a row's stored part is in a tree; None where there is but one tree.

    >>> in_tree(exp.column("p"), 10, 10, 3).sql(), in_tree(exp.column("p"), 10, 10, 0).sql()
    ('p = 3', '(NOT p BETWEEN 1 AND 9 OR p IS NULL)')
    >>> in_tree(exp.column("p"), 10, 5, 3).sql()
    'p BETWEEN 1 AND 9 AND (p % 5) = 3'
    """
    if trees == 1:
        return None
    remainder = exp.EQ(
        this=paren(exp.Mod(this=value.copy(), expression=int_literal(trees))), expression=int_literal(tree)
    )
    if tree:
        if trees == parts:
            return exp.EQ(this=value, expression=int_literal(tree))
        return exp.And(this=_in_range(value, parts), expression=remainder)
    outside: exp.Expr = exp.Not(this=_in_range(value, parts))
    if trees < parts:
        outside = exp.Or(this=outside, expression=remainder)
    missing = exp.Is(this=value.copy(), expression=exp.null())
    return paren(exp.Or(this=outside, expression=missing))


def _in_range(value: exp.Expr, parts: int) -> exp.Expr:
    return exp.Between(this=value.copy(), low=int_literal(1), high=int_literal(parts - 1))
