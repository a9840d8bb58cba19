"""The tests; the folders mirror `dpsql/`."""
