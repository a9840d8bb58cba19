"""Which functions of a DuckDB connection are its users': macros, and Python functions that a connection was given.

DuckDB lists a Python function as one of its own, and where a built-in function has its name it is called in that one's
place for the types that it takes: it would be handed private cells, and could fail on one. So what a connection has is
compared with what a connection has that nobody has touched. A loaded extension says which functions are its.
"""

from __future__ import annotations

from functools import cache

import duckdb

from dpsql.engines.duckdb.cursor import fetch_from_duckdb

_FUNCTIONS = """
SELECT function_name, function_type, CAST(parameter_types AS VARCHAR), varargs, return_type, internal,
  extension_name IS NOT NULL
FROM system.main.duckdb_functions()
"""
_INTERNAL = """
SELECT 1 FROM system.main.duckdb_functions()
WHERE internal AND system.main.lower(function_name) = system.main.lower(?)
"""
_MACROS = """
SELECT function_name, macro_definition FROM system.main.duckdb_functions()
WHERE NOT internal AND macro_definition IS NOT NULL
"""
_Signature = tuple[object, ...]


def users_functions(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the names of what users made, in lower case."""
    own = _own_functions()
    return {
        str(name).lower()
        for name, *types, internal, of_extension in fetch_from_duckdb(cursor, _FUNCTIONS)
        if not internal or (not of_extension and (name, *types) not in own)
    }


def read_macros(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the text of each macro by its name."""
    return {str(name): str(text) for name, text in fetch_from_duckdb(cursor, _MACROS)}


def replaced_functions(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the names of DuckDB's own functions in whose place something of a user's may be called."""
    return users_functions(cursor) & {str(name).lower() for name, *_ in _own_functions()}


def is_internal(cursor: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Return whether DuckDB lists a function of that name as one of its own."""
    return bool(fetch_from_duckdb(cursor, _INTERNAL, [name]))


@cache
def _own_functions() -> frozenset[_Signature]:
    """Return the functions of a connection that nobody has touched, each with its types."""
    with duckdb.connect(":memory:") as untouched:
        return frozenset((name, *types) for name, *types, _, _ in fetch_from_duckdb(untouched, _FUNCTIONS))
