"""Claims about a training that `trueloop probe` tests: one file per claim."""
