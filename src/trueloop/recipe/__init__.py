"""What to train and how: one frozen value, its validation and its overrides. No torch."""
