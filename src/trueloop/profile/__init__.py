"""Where time and memory go: watches some steps of a run with a clock, PyTorch's profiler and an operation counter."""
