"""Tests of `dpsql/strategies/`."""
