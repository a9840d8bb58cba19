"""Opens a DuckDB file, says so, and holds it until its standard input ends: another process for lock tests."""

from __future__ import annotations

import sys

import duckdb

if __name__ == "__main__":
    connection = duckdb.connect(sys.argv[1])
    print("open", flush=True)
    sys.stdin.read()
    connection.close()
