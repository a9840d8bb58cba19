"""Tests of dpsql/mechanisms: exact enumeration, samplers with power, agreement with OpenDP."""
