"""Thresholds that several rules share, each with its reason. A rule never imports a rule."""

from typing import Final

__all__ = ["DROPPED_IN_A_ROW", "MAIN_LINE", "NEAR_ZERO"]

NEAR_ZERO: Final = 1e-3  # Root mean square below which a weight started at (nearly) zero: no norm to compare with
MAIN_LINE: Final = 0.8  # Share of all backwards that one line needs for its losses to be the training loss
DROPPED_IN_A_ROW: Final = 3  # Dropped optimizers in a row: short stages do not come three times in a row
