"""A claim about an optimizer."""

from abc import ABC, abstractmethod
from typing import Final

from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject
from trueloop.results.claim_base import ClaimBase
from trueloop.results.proof import Proof

__all__ = ["ROUNDING", "OptimizerClaim"]

ROUNDING: Final = (
    1e-7  # largest relative distance of two trainings in float64 that compute the same in a different order
)


class OptimizerClaim(ClaimBase, ABC):
    @abstractmethod
    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        """Test it. Raises NotTaken if the optimizer fails in an ordinary step."""
