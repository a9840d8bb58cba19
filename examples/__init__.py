"""Programs that use dpsql as anybody would; run them from the project's root."""
