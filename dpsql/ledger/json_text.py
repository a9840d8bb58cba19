"""Reads JSON that comes from outside: models, shared trees, receipts. What is damaged is a ValueError, never a crash.

Python's own reader raises RecursionError on deep nesting, and what it just manages to read makes later code fail. So
depth and length have limits here, and whoever reads a file from outside reads it here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: How deep lists and objects may be nested: what dpsql writes is nested less than 20 deep.
MOST_DEPTH = 100
#: The largest file that is read, in megabytes: the largest models have tens of them.
MOST_MEGABYTES = 1024


def parse(text: str) -> Any:
    """Return what a JSON text holds. Raises ValueError where the text is not JSON, or is nested too deeply.

    >>> parse('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse("[" * 5000 + "]" * 5000)
    Traceback (most recent call last):
    ValueError: the JSON is nested too deeply.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        value = None
        deep = True
    else:
        deep = _deeper(value, MOST_DEPTH)
    if deep:
        raise ValueError("the JSON is nested too deeply.")
    return value


def read_file(path: Path, *, megabytes: int = MOST_MEGABYTES) -> str:
    """Return the text of a file. Raises OSError, or ValueError where it is too large or is not UTF-8."""
    with path.open("rb") as file:
        data = file.read(megabytes * 2**20 + 1)
    if len(data) > megabytes * 2**20:
        raise ValueError(f"the file is larger than {megabytes} MB.")
    return data.decode("utf-8-sig")


def write_file(path: Path, text: str) -> None:
    """Write a file in one step: under its name stands all of the text, or what was there before. Raises OSError."""
    coming = path.with_name(f"{path.name}.new")
    try:
        coming.write_text(text, encoding="utf-8")
        os.replace(coming, path)
    except OSError:
        with suppress(OSError):
            coming.unlink()
        raise


def _deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` deep. Looks level by level, without recursion."""
    level = [value]
    for _ in range(most + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                inner.extend(part for part in item.values() if isinstance(part, dict | list))
            elif isinstance(item, list):
                inner.extend(part for part in item if isinstance(part, dict | list))
        if not inner:
            return False
        level = inner
    return True
