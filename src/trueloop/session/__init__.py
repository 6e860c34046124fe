"""A `trueloop train` run: its folder, live checks and trackers around the engine's loop."""
