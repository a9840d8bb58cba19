"""Columns as Arrow arrays, for drivers that take Arrow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow


def arrow_column(values: np.ndarray[Any, Any], plain: Collection[type] | None = None) -> arrow.Array:
    """Return a column; numbers and times keep their type, and cells of several types become texts.

    `plain` are the types of cells that the database takes as they are, where it does not take all that Arrow has.
    """
    if values.dtype.kind in "uifbM":
        return arrow.array(values)
    cells = [None if missing else value for missing, value in zip(pd.isna(values), values, strict=True)]
    types = {type(cell) for cell in cells if cell is not None}
    if len(types) == 1 and (plain is None or types <= set(plain)):
        return arrow.array(cells)
    return arrow.array([None if cell is None else str(cell) for cell in cells], arrow.string())
