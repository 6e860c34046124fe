"""Benchmark the forms of one model: each in its own process, with the same inputs, interleaved."""
