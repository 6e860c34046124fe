"""What a verb gives back: one file per verb. No torch."""
