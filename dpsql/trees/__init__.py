"""Forests as plain values: grids, structure, growth, storage, drawing. Nothing here sees a row of a private table."""
