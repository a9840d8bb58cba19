"""Tests of dpsql/schema."""
