"""Prints rows that are wider than the terminal: columns in the middle are left out, and a note says how many.

Where the output is no terminal nothing is left out, and lines are as long as they must be.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from dpsql.cli.printing.output import clean, note, print_table

_Value = TypeVar("_Value")
#: What stands for the columns that are left out.
ELLIPSIS = "…"
#: The most that a column counts for on a terminal: a longer cell is folded within its column.
_WIDEST = 40
#: Characters between two columns.
_BETWEEN = 3
#: The least width of a table that is not printed on a terminal.
_PLAIN_WIDTH = 120


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as a table; on a terminal without the columns in the middle that do not fit."""
    widths = _widths(columns, rows)
    if not sys.stdout.isatty():
        print_table(None, columns, rows, width=max(_PLAIN_WIDTH, sum(widths) + _BETWEEN * len(widths)))
        return
    terminal = shutil.get_terminal_size().columns
    shown = columns_that_fit([min(_WIDEST, width) for width in widths], terminal)
    if shown is None:
        print_table(None, columns, rows, width=terminal)
        return
    first, last = shown
    print_table(
        None,
        [*columns[:first], ELLIPSIS, *_end(columns, last)],
        [[*row[:first], ELLIPSIS, *_end(row, last)] for row in rows],
        width=terminal,
    )
    note(f"{first + last} of {len(columns)} columns are shown; name those that you want, or widen the terminal.")


def columns_that_fit(widths: Sequence[int], width: int) -> tuple[int, int] | None:
    """Return how many of the first and of the last columns fit beside an ellipsis; None where all columns fit.

    >>> columns_that_fit([10, 10, 10], 36)
    >>> columns_that_fit([10, 10, 10, 10], 36)
    (1, 1)
    >>> columns_that_fit([50, 10, 10], 20)
    (1, 0)
    """
    if sum(widths) + _BETWEEN * (len(widths) - 1) <= width or len(widths) < 2:
        return None
    counts, used = [0, 0], len(ELLIPSIS)
    while True:
        side = 0 if counts[0] <= counts[1] else 1
        following = widths[counts[0]] if side == 0 else widths[-1 - counts[1]]
        used += _BETWEEN + following
        if used > width or sum(counts) + 1 >= len(widths):
            return max(counts[0], 1), counts[1]
        counts[side] += 1


def _widths(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[int]:
    """Return how wide each column is: its name or its longest line."""
    texts = [[name, *("NULL" if row[number] is None else clean(row[number]) for row in rows)]
             for number, name in enumerate(columns)]  # fmt: skip
    return [max(_cells(line) for text in column for line in text.split("\n")) for column in texts]


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _end(values: Sequence[_Value], count: int) -> list[_Value]:
    return list(values[len(values) - count :])
