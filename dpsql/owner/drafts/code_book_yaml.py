"""Reads code books in YAML: a mapping from columns to lists or bounds, or the properties file of a dbt project.

Of dbt's tests on columns these say a domain: `accepted_values`, `accepted_range` of dbt_utils, of dbt_expectations
`expect_column_values_to_be_between` and `expect_column_values_to_be_in_set`, and `unique`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from dpsql.errors import SchemaError
from dpsql.owner.drafts.code_book_entry import HEADERS, CodeBookEntry, listed_texts
from dpsql.schema.schema_file import read_nodes

#: The keys under which YAML has bounds and lists.
_LOWER, _UPPER, _VALUES = HEADERS["lower"], HEADERS["upper"], (*HEADERS["values"], "accepted_values", "value_set")


def yaml_entries(path: Path) -> Iterator[CodeBookEntry]:
    """Yield an entry for each column, in the order of the file."""
    keys = _items(read_nodes(path))
    if keys.keys() & {"models", "sources", "seeds", "snapshots"}:
        yield from _dbt_entries(keys, path.name)
        return
    inner = next((_items(keys[key]) for key in ("columns", "features", "variables", "fields") if key in keys), None)
    for column, node in (keys if inner is None else inner).items():
        yield _mapped_entry(column, node)


def _mapped_entry(column: str, node: yaml.Node) -> CodeBookEntry:
    """Return what a mapping says of one column: a list, codes with their meanings, bounds, or a text that lists."""
    entry, details = CodeBookEntry(column, node.start_mark.line + 1), _items(node)
    if not details:
        entry.values = _texts(node)
        return entry
    lower, upper, values = (_member(details, words) for words in (_LOWER, _UPPER, _VALUES))
    entry.lower, entry.upper, entry.values = _text(lower), _text(upper), _texts(values)
    if lower is None and upper is None and values is None and "type" not in details:
        entry.values = list(details)  # codes and their meanings
    return entry


def _member(details: Mapping[str, yaml.Node], words: Sequence[str]) -> yaml.Node | None:
    """Return the member under the first of these words that is there."""
    return next((details[word] for word in words if word in details), None)


def _dbt_entries(keys: Mapping[str, yaml.Node], name: str) -> Iterator[CodeBookEntry]:
    """Yield what the tests of a dbt properties file say: accepted values, accepted ranges, unique keys."""
    tables = [node for key in ("models", "seeds", "snapshots") for node in _members(keys.get(key))]
    for source in _members(keys.get("sources")):
        tables += _members(_items(source).get("tables"))
    for table in tables:
        described = _items(table)
        for column in _members(described.get("columns")):
            facts = _items(column)
            if "name" not in facts:
                raise SchemaError(f'code book "{name}", line {column.start_mark.line + 1}: a column has no name.')
            entry = CodeBookEntry(_text(facts["name"]), column.start_mark.line + 1)
            entry.table = _text(described.get("name"))
            for test in [*_members(facts.get("tests")), *_members(facts.get("data_tests"))]:
                _take_test(entry, test)
            yield entry


def _take_test(entry: CodeBookEntry, test: yaml.Node) -> None:
    """Add to an entry what one test of a column says."""
    if isinstance(test, yaml.ScalarNode):
        entry.unique = entry.unique or test.value == "unique"
        return
    for kind, arguments in _items(test).items():
        word = kind.rpartition(".")[2]
        given = _items(arguments)
        given |= _items(given.get("arguments"))
        if word in ("accepted_values", "expect_column_values_to_be_in_set"):
            entry.values = _texts(given.get("values") or given.get("value_set"))
        elif word in ("accepted_range", "expect_column_values_to_be_between"):
            entry.lower, entry.upper = _text(given.get("min_value")), _text(given.get("max_value"))
        elif word == "unique":
            entry.unique = True
        else:
            continue
        entry.line = test.start_mark.line + 1


def _items(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return the members of a mapping by key; none where the node is no mapping."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _members(node: yaml.Node | None) -> list[yaml.Node]:
    """Return the members of a list; none where the node is no list."""
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _texts(node: yaml.Node | None) -> list[str]:
    """Return a list's scalars, or a mapping's keys, as they are written."""
    if isinstance(node, yaml.MappingNode):
        return list(_items(node))
    if isinstance(node, yaml.ScalarNode):
        return listed_texts(node.value)
    return [str(member.value) for member in _members(node) if isinstance(member, yaml.ScalarNode)]


def _text(node: yaml.Node | None) -> str:
    """Return a scalar as it is written; "" for anything else."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""
