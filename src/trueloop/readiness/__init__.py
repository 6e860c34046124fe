"""What a run has recorded, read section by section into statements: `trueloop ready`. No torch."""
