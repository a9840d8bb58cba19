"""Measures what dpsql costs, in units that a slow or busy machine does not change, and how accurate its methods are.

See `dpsql bench`, or `python -m dpsql.bench`, which is the same.
"""
