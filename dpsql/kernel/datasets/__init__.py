"""Registered datasets: which table is which, what its columns mean to the engine, and which conditions rows meet."""
