"""Tests of the SQL that is built from trees."""
