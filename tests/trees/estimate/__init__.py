"""Tests of dpsql/trees/estimate."""
