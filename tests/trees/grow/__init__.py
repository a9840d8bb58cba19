"""Tests of dpsql/trees/grow."""
