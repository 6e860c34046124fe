"""One file per knob; the folder is the registry."""
