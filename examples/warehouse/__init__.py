"""A warehouse of five synthetic tables: one view, one command, one row for each person."""
