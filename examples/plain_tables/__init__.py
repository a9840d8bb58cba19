"""Three plain tables, from a CSV file to an evaluated model, without a schema file and with one."""
