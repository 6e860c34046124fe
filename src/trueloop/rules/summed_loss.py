"""Is the loss a sum over the batch? Then its gradients grow with the batch, and so does each update."""

from math import prod
from typing import Final, final

from trueloop.event import Backward, LossComputed, Stepped
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.rules.rule import plural

__all__ = ["SummedLoss"]

FEWEST: Final = 8  # Terms of a sum: fewer do not explain a learning rate that is ten times too high


@final
class SummedLoss:
    """Follows the losses of a run, for rules about a learning rate that is too high."""

    def __init__(self) -> None:
        self._terms = 0  # Of the latest loss with reduction="sum"
        self._by_sum = False  # backward was called on a sum
        self._other = False  # some loss is a mean, or was divided
        self._scale_free = False

    def hear_loss(self, event: LossComputed) -> None:
        if event.grad and event.reduction == "sum":
            by_class = event.function in CLASS_LOSSES
            self._terms = prod(event.target_shape if by_class else event.input_shape)

    def hear_backward(self, event: Backward) -> None:
        self._by_sum |= event.root.startswith("Sum")
        self._other |= event.mean or event.divided

    def hear_step(self, event: Stepped) -> None:
        self._scale_free |= event.scale_free

    @property
    def is_cause(self) -> bool:
        return (self._terms >= FEWEST or self._by_sum) and not self._other and not self._scale_free

    def message(self) -> str:
        """The sentence to add to a message; empty if the loss is not a sum, or the optimizer does not depend on it."""
        if not self.is_cause:
            return ""
        if self._terms < FEWEST:
            return " The loss is a sum, so its gradients grow with the number of its terms."
        return f' The loss has reduction="sum": gradients are {plural(self._terms, "time")} those of a mean.'

    def fix(self, rate: float | None) -> str:
        """The fix to begin with; empty as above."""
        if not self.is_cause:
            return ""
        if self._terms < FEWEST:
            return "Write `.mean()` instead of `.sum()`, or divide the loss by the batch size. "
        lower = "" if rate is None else f", or `lr={rate / self._terms:.1g}`"
        return f'Use `reduction="mean"`{lower}. '
