"""Tests of dpsql/compile/views."""
