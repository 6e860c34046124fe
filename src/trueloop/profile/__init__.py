"""Where time and memory go: a run watched for some steps, by a clock, by PyTorch's profiler, and operation by
operation."""
