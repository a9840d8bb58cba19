"""Estimates from noisy counts: means, shares, confidences, profiles. All are post-processing; no row is read."""
