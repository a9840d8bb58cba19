"""The trusted kernel: the only code that sees an exact count. Plan, charge, query, noise, in that order."""
