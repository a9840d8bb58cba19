"""Exact samplers for differential privacy: integers and operating-system entropy, no floating point.

- `rng`: uniform numbers, keys and permutations;
- `bernoulli`: coins of chance exp(-x) for a rational x;
- `noise`: two-sided (discrete Laplace) and one-sided geometric noise;
- `choose`: permute-and-flip, also known as noisy arg-max, and the exponential mechanism.
"""
