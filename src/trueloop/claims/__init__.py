"""WHAT ONE CLAIMS OF A TRAINING: one file per claim, each with its proof. `trueloop probe` tries them."""
