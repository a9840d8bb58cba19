"""The experiments of papers on private forests, run again: `python -m examples.papers`."""
