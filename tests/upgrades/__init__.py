"""Databases written by earlier commits of dpsql, and what the present code makes of them."""
