"""Tests of dpsql/runs."""
