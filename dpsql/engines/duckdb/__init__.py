"""DuckDB: a database file, and Parquet or CSV files in place."""
