"""The doors for Python, for SQL inside DuckDB, and for PL/Python inside PostgreSQL."""
