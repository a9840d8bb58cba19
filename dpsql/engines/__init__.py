"""Databases that run the SQL: one file each, behind the protocol of `base.py`."""
