"""Tests of dpsql/owner."""
