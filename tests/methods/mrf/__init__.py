"""Tests of dpsql/methods/mrf."""
