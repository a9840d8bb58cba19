"""Accuracy on public tables beside reference figures and other libraries: `python -m examples.benchmarks`."""
