"""Tests of examples/benchmarks."""
