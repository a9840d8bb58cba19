"""Audits of the promise itself: one run is recorded, replayed on a neighbouring table, and its loss is worked out.

A replay gives the second run the secret keys and the released values of the first. So it sees how much noise was asked
for, never how it was drawn. Outside of what it can see are, and these tests hold them instead:

- a sampler that draws less noise than it is asked for, or noise that can be foretold:
  `tests/mechanisms/test_laplace.py`, `test_gaussian.py`, `test_choose.py`, `test_bernoulli.py` and
  `tests/kernel/test_noise.py`;
- secret keys that are not secret: `tests/mechanisms/test_rng.py` and `tests/kernel/test_secrets.py`;
- a wrong formula between rho and (epsilon, delta), which the audit uses too: `tests/mechanisms/test_concentrated.py`;
- how long a run takes, and what it leaves outside the database: `docs/understanding/privacy.md` tells what is promised.
"""
