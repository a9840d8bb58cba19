"""Exact samplers for differential privacy: integers and operating-system entropy, no floating point.

- `rng`: uniform numbers and keys;
- `bernoulli`: coins of chance exp(-x) for a rational x;
- `laplace`: discrete Laplace noise, which is two-sided geometric;
- `gaussian`: discrete Gaussian noise;
- `choose`: permute-and-flip, also known as noisy arg-max, and the exponential mechanism;
- `concentrated`: which rho implies which (epsilon, delta).
"""
