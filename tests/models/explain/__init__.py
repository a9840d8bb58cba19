"""Tests of what a model learned, in words and pictures."""
