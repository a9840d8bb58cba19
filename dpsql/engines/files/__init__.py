"""What engines share that read Parquet and CSV files, and where rows may spill to disk."""
