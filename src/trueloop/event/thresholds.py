"""Thresholds that a rule, a claim and the engine share, so that all give the same answer."""

from typing import Final

__all__ = ["BATCH_CHANGE", "BATCH_CHANGE_NORMALIZED", "BATCH_REPEAT", "PARAMETER_DRIFT"]

BATCH_CHANGE: Final = 1e-3  # Relative change of the kept sample's output: more than rounding, at half precision too
BATCH_CHANGE_NORMALIZED: Final = 1e-4  # The same, where a softmax over the samples is found: early, it is nearly even
BATCH_REPEAT: Final = 1e-6  # Relative change when nothing was replaced: above it the model is random, or has a state
PARAMETER_DRIFT: Final = 1e-4
"""Relative difference of a weight between ranks: 1000 times the rounding error, less than the change of one step."""
