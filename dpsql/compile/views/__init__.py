"""Which views and conditions may stand between a private table and a run, and their SQL."""
