"""Tests of `dpsql.ledger`, on real DuckDB files."""
