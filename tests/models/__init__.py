"""Tests of dpsql/models."""
