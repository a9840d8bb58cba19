"""Tests of where the domains of a draft come from."""
