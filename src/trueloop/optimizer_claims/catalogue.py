"""The claims about optimizers are the files of this folder that define a subclass of OptimizerClaim."""

from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import Catalogue

__all__ = ["OPTIMIZER_CLAIMS"]

OPTIMIZER_CLAIMS: Final = Catalogue(
    "trueloop.optimizer_claims",
    Path(__file__).parent,
    "OptimizerClaim",
    (
        *("same-trajectory", "loss-falls", "state-survives-checkpoint", "param-groups-apart"),
        *("parameters-without-gradient-stay", "zero-gradients-are-finite", "nan-is-not-hidden"),
        *("learning-rate-is-read-each-step", "weight-decay-shrinks", "maximize-is-used", "closure-is-used"),
        *("step-writes-weights-only", "layout-does-not-matter", "optimizers-are-independent"),
        *("sparse-gradients-are-right", "grad-scaler-skips", "nonsense-is-refused", "memory-stays"),
    ),
)
