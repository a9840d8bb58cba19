"""Tests of dpsql/methods/auto."""
