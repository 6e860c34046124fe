"""Run a script without and with a change, in copies of its folder, and compare the runs."""
