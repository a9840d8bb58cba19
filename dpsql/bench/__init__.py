"""Measures what dpsql costs, in units that a slow or busy machine does not change: see `python -m dpsql.bench`."""
