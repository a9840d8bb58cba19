"""Tests of examples/papers."""
