"""The command line: one file per verb, the shared options once."""
