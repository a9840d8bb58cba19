"""PostgreSQL: the engine, its catalog, its words, its wall around analysts."""
