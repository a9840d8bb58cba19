"""Trees to SQL: pure functions that return sqlglot expressions. No I/O, no database, no noise."""
