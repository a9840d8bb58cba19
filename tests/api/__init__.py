"""Tests of dpsql/api."""
