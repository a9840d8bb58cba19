"""Tests of dpsql/bench."""
