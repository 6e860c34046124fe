"""What can be proved of an operation: one file per claim."""
