"""The commands, each a thin function: it parses, calls one Python function of the same name, and prints."""
