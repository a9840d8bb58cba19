"""Tests of dpsql/compile/predict."""
