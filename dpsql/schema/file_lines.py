"""Where the parts of a schema stand in its file: a line for each path of keys, so that an error can name it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from dpsql.schema.problems import Path


def yaml_lines(node: yaml.Node | None, path: Path = ()) -> dict[Path, int]:
    """Return the line, counted from 1, of each key and each element of a list below a node.

    >>> yaml_lines(yaml.compose("label: y" + chr(10) + "classes: [a, b]"))[("classes", "2")]
    2
    """
    lines: dict[Path, int] = {}
    for below, line in _lines_below(node, path):
        lines.setdefault(below, line)  # of a key that stands twice, the first is read
    return lines


def _lines_below(node: yaml.Node | None, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _lines_below(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value, 1):
            below = (*path, str(number))
            yield below, value.start_mark.line + 1
            yield from _lines_below(value, below)


def json_lines(text: str, declared: object) -> dict[Path, int]:
    """Return the line of each key of a JSON text, found by looking for the keys in the order in which they stand.

    A key that is written with escapes is not found, and has no line; those after it have theirs.

    >>> json_lines('{"label": "y",' + chr(10) + ' "features": {"x": 1}}', {"label": "y", "features": {"x": 1}})
    {('label',): 1, ('features',): 2, ('features', 'x'): 2}
    """
    lines: dict[Path, int] = {}
    place = 0

    def look(value: object, path: Path) -> None:
        nonlocal place
        parts: Any = value.items() if isinstance(value, Mapping) else ()
        for key, inner in parts:
            start = _key_place(text, str(key), place)
            if start >= 0:
                lines[(*path, str(key))] = text.count("\n", 0, start) + 1
                place = start + 1
            look(inner, (*path, str(key)))

    look(declared, ())
    return lines


def _key_place(text: str, key: str, start: int) -> int:
    """Return where a key stands from a place on: its text in quotes with a colon after it, or -1."""
    quoted = json.dumps(key, ensure_ascii=False)
    place = text.find(quoted, start)
    while place >= 0 and not text[place + len(quoted) :].lstrip().startswith(":"):
        place = text.find(quoted, place + 1)
    return place
