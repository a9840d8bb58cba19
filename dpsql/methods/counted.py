"""Steps that methods of noisy counts share: counts on shared trees, and a size bought where none is declared."""

from __future__ import annotations

from dpsql.errors import ParameterError
from dpsql.kernel.plan import Sequential, Step
from dpsql.schema import Schema

#: The share of epsilon that buys the number of rows when it is not declared, in hundredths.
SIZE_SHARE = 3


def shared_counts(nano_epsilon: int, trees: int, schema: Schema, cells: int) -> Step:
    """Return the step that releases a noisy count of every leaf and class, each row in every tree."""
    return Step(
        "counts",
        "leaf_counts",
        nano_epsilon,
        trees=trees,
        shared=True,
        cells=cells,
        classes=len(schema.classes),
        note="one noisy count per leaf and class; each row is in every tree, so the trees share epsilon",
    )


def size_then_counts(nano_epsilon: int, trees: int, schema: Schema, limit: int) -> Sequential:
    """Return both steps, adding up to epsilon exactly; `limit` bounds the cells, as the depth is not known yet."""
    if nano_epsilon < 100:
        given = nano_epsilon / 10**9
        raise ParameterError("epsilon", allowed="at least 0.0000001 where the size is bought", given=given)
    share = nano_epsilon * SIZE_SHARE // 100
    size = Step("size", "size", share, note="the size is not declared; it decides the depth")
    return Sequential((size, shared_counts(nano_epsilon - share, trees, schema, limit)))
