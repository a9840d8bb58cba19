"""Tests of dpsql/advice."""
