"""The command line: each command parses, calls one Python function of the same name, and prints."""
