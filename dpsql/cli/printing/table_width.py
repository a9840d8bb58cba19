"""Which columns of a table fit a terminal: the least important are left out, rather than all cells cut to pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The width from which on a cell may be broken into lines; a column asks for no more than this.
_WIDEST = 32
#: What stands between two columns.
_BETWEEN = 3


def hidden_columns(widths: Mapping[str, int], available: int, less: Sequence[str] = ()) -> list[str]:
    """Return the columns to leave out, so that the others fit: first those of `less`, in their order.

    Without such an order, and after it, those in the middle go first: the first column says what a row is about, and
    the last one usually what came out. Two columns always stay.

    >>> hidden_columns({"name": 10, "digest": 12, "epsilon": 7}, 40)
    []
    >>> hidden_columns({"name": 10, "digest": 12, "epsilon": 7}, 30, ["digest"])
    ['digest']
    >>> hidden_columns({"a": 10, "b": 10, "c": 10, "d": 10, "e": 10}, 40)
    ['c', 'd']
    """
    left = {name: min(width, _WIDEST) for name, width in widths.items()}
    order = [name for name in less if name in left]
    hidden = []
    while len(left) > 2 and sum(left.values()) + _BETWEEN * (len(left) - 1) > available:
        name = order.pop(0) if order else list(left)[len(left) // 2]
        hidden.append(name)
        del left[name]
    return [name for name in widths if name in hidden]
