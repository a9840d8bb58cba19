"""Tests of dpsql/compile/count."""
