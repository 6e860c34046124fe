"""One file per knob."""
