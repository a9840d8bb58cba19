"""Measures what exact noise costs, in CPU seconds, beside OpenDP's vector call in the same run."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpsql.bench.clock import cpu_seconds, least
from dpsql.mechanisms.choose import permute_and_flip
from dpsql.mechanisms.laplace import discrete_laplace

#: How many times faster than OpenDP discrete Laplace noise should be drawn.
GOAL = 20
#: Two plain scales, and one whose numerator and denominator have nothing in common with a power of two.
SCALES = (Fraction(1), Fraction(10), Fraction(1_234_567, 89_101))


def measure_noise(draws: int, *, repeat: int) -> dict[str, object]:
    """Return the figures as plain values; OpenDP's are None where it is not installed."""
    sampler = opendp_laplace() if importlib.util.find_spec("opendp") else None
    scales = [_measure_scale(scale, draws, sampler, repeat=repeat) for scale in SCALES]
    pairs = np.random.default_rng(1).integers(0, 20, (draws, 2))
    choose = partial(permute_and_flip, pairs, Fraction(1), monotone=True)
    flips = least({"choose": choose}, repeat=repeat)["choose"]
    return {"draws": draws, "goal_ratio": GOAL, "discrete_laplace": scales, "permute_and_flip_seconds": flips}


def opendp_laplace() -> Callable[[Fraction, int], object]:
    """Return a function that draws that many of OpenDP's discrete Laplace numbers at that scale."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)

    def draw(scale: Fraction, draws: int) -> object:
        return dp.m.make_laplace(*space, scale=float(scale))([0] * draws)

    return draw


def _measure_scale(
    scale: Fraction, draws: int, sampler: Callable[[Fraction, int], object] | None, *, repeat: int
) -> dict[str, object]:
    """Time one scale; OpenDP is slow enough to be timed once."""
    ours = least({"draw": partial(discrete_laplace, scale, draws)}, repeat=repeat)["draw"]
    theirs = cpu_seconds(partial(sampler, scale, draws)) if sampler else None
    ratio = theirs / ours if theirs else None
    return {"scale": str(scale), "seconds": ours, "opendp_seconds": theirs, "ratio": ratio}
