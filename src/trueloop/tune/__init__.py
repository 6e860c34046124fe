"""What to change: the fastest variant of a recipe that computes the same training, found by measuring."""
