"""Search for a faster or smaller variant of a recipe that computes the same training."""
