"""Audits of the promise itself: one run is recorded, replayed on a neighbouring table, and its loss is worked out."""
