"""A TRAINED MODEL LEAVES THE HOUSE: one file per target; what each writes is run in its own runtime before it
counts."""
