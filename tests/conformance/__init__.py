"""One suite over all engines: equal counts, cell by cell, and equal predictions."""
