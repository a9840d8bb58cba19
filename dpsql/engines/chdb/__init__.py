"""chDB: ClickHouse inside this process, with a ledger elsewhere."""
