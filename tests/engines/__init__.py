"""Tests of the databases behind the engine protocol."""
