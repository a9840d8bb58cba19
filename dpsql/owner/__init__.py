"""What a data owner does: register a table, draft its schema, add row ids, set up roles, look a database over."""
