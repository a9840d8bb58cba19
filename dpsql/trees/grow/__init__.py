"""Trees grown without private rows: from the schema, a public seed and noisy answers alone."""
