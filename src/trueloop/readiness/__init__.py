"""The recorded files of a run, read section by section into statements: `trueloop ready`. No torch."""
