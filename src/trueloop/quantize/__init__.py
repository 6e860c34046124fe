"""Quantize a trained model: one file per scheme."""
