"""Attacks that once broke the promise, one file for each finding; all of them must fail."""
