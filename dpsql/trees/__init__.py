"""Forests as plain values: their grids, splits, growth, storage and drawing. Nothing here sees a private row."""
