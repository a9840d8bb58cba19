"""Turns trees into SQL by pure functions that return sqlglot expressions: no I/O, no database, no noise."""
