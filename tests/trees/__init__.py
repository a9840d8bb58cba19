"""Tests of grids, structure, growth and depth."""
