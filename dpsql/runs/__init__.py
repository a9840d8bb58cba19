"""Charged runs: each asks the kernel for a release, and stores what was released."""
