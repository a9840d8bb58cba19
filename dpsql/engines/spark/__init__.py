"""Spark: a cluster or a local session, with a ledger elsewhere."""
