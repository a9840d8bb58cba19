"""Describes a set of a feature's cells: `age 35 to 60`, `capital_gain ≥ 4688`, `relationship is Husband or Wife`.

The words come from the schema alone, which is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dpsql.schema import Categorical, Dated, Feature, Hashed, Numeric

#: The most values of a category that a phrase lists.
MOST_VALUES = 4
#: An edge that is closer to 0 than this part of a cell's width is written as 0.
_ZERO_PART = 1e-6


def phrase(feature: Feature, cells: Iterable[int]) -> str:
    """Return a condition that holds for values in these cells; those of a category are named in the order given.

    >>> phrase(Numeric("age", 0, 64), range(35, 60))
    'age 35 to 60'
    >>> phrase(Categorical("color", ("red", "green", "blue")), (0, 2))
    'color is red or blue'
    >>> phrase(Hashed("job"), (17, 20)), phrase(Hashed("job"), (63,))
    ('job is #17 or #20 (hash cells)', 'job is NULL')
    """
    distinct = list(dict.fromkeys(cells))
    if isinstance(feature, Numeric):
        return f"{feature.name} {' or '.join(_range(feature, first, last) for first, last in runs(sorted(distinct)))}"
    if isinstance(feature, Hashed):
        return f"{feature.name} is {_join_values(names(feature, distinct))}{_hash_mark(feature, distinct)}"
    left_out = [cell for cell in range(len(feature.values)) if cell not in set(distinct)]
    if len(distinct) > MOST_VALUES and 0 < len(left_out) <= 2 and len(feature.values) in distinct:
        return f"{feature.name} is not {_join_values([feature.values[cell] for cell in left_out])}"
    return f"{feature.name} is {_join_values(names(feature, distinct))}"


def short_phrase(feature: Feature, cells: Sequence[int]) -> str:
    """Return the phrase without the feature's name, for an axis that is labelled with it.

    >>> short_phrase(Numeric("age", 0, 64), range(10)), short_phrase(Categorical("color", ("red", "green")), (1, 2))
    ('< 10', 'green, unknown or NULL')
    """
    text = phrase(feature, cells).removeprefix(f"{feature.name} ")
    return text if isinstance(feature, Numeric) else text.removeprefix("is ")


def names(feature: Categorical, cells: Iterable[int]) -> list[str]:
    """Return the values that cells stand for; the last cell stands for NULL and every value that was not declared.

    Every value has a cell in a hashed category without a list, so that there the last one stands for NULL alone.
    """
    values: list[str] = []
    for cell in cells:
        values += [feature.values[cell]] if cell < len(feature.values) else _others(feature)
    return values


def runs(cells: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted cells as runs of neighbours, each by its first and last cell.

    >>> runs([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    runs_so_far: list[tuple[int, int]] = []
    for cell in cells:
        if runs_so_far and cell == runs_so_far[-1][1] + 1:
            runs_so_far[-1] = (runs_so_far[-1][0], cell)
        else:
            runs_so_far.append((cell, cell))
    return runs_so_far


def edge_text(feature: Numeric, cell: int) -> str:
    """Return the lower edge of a cell, with as many digits as are needed to tell it from its neighbours.

    >>> edge_text(Numeric("share", 0, 1), 16), edge_text(Numeric("gain", 0, 100_000), 3)
    ('0.25', '4688')
    """
    if isinstance(feature, Dated):
        return feature.edge_text(cell)
    edge = feature.edges[cell - 1]
    if abs(edge) * feature.scale < _ZERO_PART:
        return "0"
    digits = max(0, math.ceil(-math.log10(0.2 / feature.scale)))
    if digits > 6 or abs(edge) >= 1e9:
        return f"{edge:.6g}"
    text = f"{edge:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _range(feature: Numeric, first: int, last: int) -> str:
    if first == 0 and last == feature.cells - 1:
        return "of any size"
    if first == 0:
        return f"< {edge_text(feature, last + 1)}"
    if last == feature.cells - 1:
        return f"≥ {edge_text(feature, first)}"
    return f"{edge_text(feature, first)} to {edge_text(feature, last + 1)}"


def _others(feature: Categorical) -> list[str]:
    takes_all = isinstance(feature, Hashed) and not feature.listed
    return ["unknown"] * (feature.unknown is None and not takes_all) + ["NULL"] * (feature.null is None)


def _hash_mark(feature: Hashed, cells: Sequence[int]) -> str:
    """Return what tells the names of hash cells from values: ` (a hash cell)`."""
    hash_cells = sum(cell < len(feature.values) for cell in cells)
    return "" if not hash_cells else " (a hash cell)" if hash_cells == 1 else " (hash cells)"


def _join_values(texts: Sequence[str]) -> str:
    if len(texts) > MOST_VALUES:
        shown = MOST_VALUES - 1
        return f"{', '.join(texts[:shown])} or {len(texts) - shown} more"
    return " or ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} or {texts[-1]}"
