"""Databases that run the SQL: one package each, behind the protocol of `base.py`."""
