"""The user's loss. It is called as `loss(output, targets)`, or, if it needs three arguments, as
`loss(output, batch, state)`: `batch.inputs`, `batch.targets`, and the `LossState`. What it returns:

    losses                   one loss per sample: the mean over all samples
    mean                     a mean over the samples of the batch, or over what `loss_count` counts
    total, count             a sum and its own divisor: the mean over all that was counted, as tokens
    ..., {"kl": kl}          parts to be logged, averaged like the loss; after `total, count` they are sums as well

A dict is parts; a number, or a tensor of one number, is a count.
"""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor

from trueloop.data.source import Batch, map_tensors, size_of, tensors_in
from trueloop.engine.state import State
from trueloop.engine.targets import describe_tensor, type_name
from trueloop.engine.task_kind import LossState, LossSum, Task
from trueloop.errors import BadData
from trueloop.recipe.call import call_own, required_parameters

__all__ = ["OwnLoss"]

_TAKEN: Final = ("loss", "count", "lr", "gradient_norm", "samples_per_second", "data_wait", "skipped", "memory_mb")
_FORMS: Final = "return one loss per sample, their mean, or `total, count`; and then, if you like, a dict of parts"


class _Returned(NamedTuple):
    value: Any
    count: Any  # None: it returned none
    parts: Mapping[str, Any]


@final
class OwnLoss(Task):
    """One number per sample, a mean over samples or over what `count` says, or a sum with its divisor. Metric: loss."""

    metric = "loss"
    higher_is_better = False
    own_form = True

    def __init__(
        self,
        function: Callable[..., Any],
        count: Callable[[Any], int | Tensor] | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        """`names`: of the recipe's metrics, which no part may have."""
        self.function, self.own_count, self.names = function, count, names
        self.takes_state = required_parameters(function) == 3
        self._run, self._total_steps = State(), 1

    def follow(self, state: State, total_steps: int) -> None:
        self._run, self._total_steps = state, total_steps

    def now(self, step: int | None = None, epoch: int | None = None) -> LossState:
        """Where the run stands, or at a step of it."""
        run, training = self._run, torch.is_grad_enabled()
        # An evaluation at the end of an epoch belongs to that epoch, though the run stands before the next.
        present = run.epoch - (not training and run.batch == 0 and run.epoch > 0)
        at = (run.step if step is None else step, present if epoch is None else epoch)
        return LossState(*at, self._total_steps, training=training)

    def loss(self, output: Any, batch: Batch, state: LossState | None = None) -> LossSum:
        value, count, parts = _read(self._called(output, batch, state))
        if count is not None:
            sums = {name: torch.as_tensor(part, device=value.device).detach().sum() for name, part in parts.items()}
            return LossSum(value.sum(), count, sums)
        number = self.count_of(batch)
        sums = {}
        for name, part in parts.items():
            sums[name] = self._summed(torch.as_tensor(part, device=value.device).detach(), batch, number)
        return LossSum(self._summed(value, batch, number), None, sums)

    def _called(self, output: Any, batch: Batch, state: LossState | None = None) -> Any:
        if self.takes_state:
            return self.function(output, batch, state or self.now())
        return self.function(output, batch.targets)

    def _summed(self, value: Tensor, batch: Batch, number: int | Tensor) -> Tensor:
        if value.dim() == 0:
            return value * number
        return value.sum() * (self.samples(batch) / value.numel()) if self.own_count is None else value.sum()

    def loss_sum(self, output: Any, targets: Any) -> Tensor:
        return self.loss(output, Batch(None, targets)).total

    def count(self, targets: Any) -> int | Tensor:
        return self.count_of(Batch(None, targets))

    def count_of(self, batch: Batch) -> int | Tensor:
        return self.samples(batch) if self.own_count is None else self.own_count(batch.targets)

    def samples(self, batch: Batch) -> int:
        return size_of(batch.inputs if batch.targets is None else batch.targets)

    def measures(self, output: Any, targets: Any) -> dict[str, Tensor]:
        return {}

    # -- before the training --

    def check(self, output: Any, targets: Any, at: str) -> None:
        self.check_batch(output, Batch(None, targets), at)

    def check_batch(self, output: Any, batch: Batch, at: str) -> None:
        with torch.enable_grad():  # this check runs without gradients: whether the loss has one shows on a copy
            copies = map_tensors(output, lambda t: t.detach().requires_grad_(t.is_floating_point()))
            form = "def loss(output, targets)` or `def loss(output, batch, state)"
            given = (batch, self.now()) if self.takes_state else (batch.targets,)
            returned = call_own("loss", form, self.function, copies, *given)
        value, count, parts = _read(returned, at)
        self._check_value(value, count, batch, at)
        self._check_parts(parts, count, batch, at)
        if any(each.requires_grad for each in tensors_in(copies)) and not value.requires_grad:
            raise BadData(
                f"{at}: no gradient flows from the recipe's loss to the model's output. Nothing was trained: compute "
                "it from the output with torch, without `.detach()`, `.item()`, `argmax` or numpy."
            )
        tensors = isinstance(output, Tensor) and isinstance(batch.targets, Tensor)
        if tensors:
            self._refuse_a_broadcast(output, batch, value.detach(), at)
        if value.dim() == 0 and count is None and tensors and len(output) == len(batch.targets) >= 4:
            self._refuse_a_sum(output, batch, value.detach(), at)

    def _check_value(self, value: Any, count: Any, batch: Batch, at: str) -> None:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            got = describe_tensor(value) if isinstance(value, Tensor) else type_name(value)
            raise BadData(
                f"{at}: the recipe's loss returns {got}; it must be a floating-point tensor, computed from the model's "
                f"output. Nothing was trained: {_FORMS}."
            )
        if count is not None and self.own_count is not None:
            raise BadData(f"{at}: the recipe's loss returns a count, and loss_count is set too: leave loss_count out.")
        if count is None and value.dim() and len(value) != self.samples(batch):
            got = f"{describe_tensor(value)} for {self.samples(batch)} samples"
            raise BadData(f"{at}: the recipe's loss returns {got}. Nothing was trained: {_FORMS}.")

    def _check_parts(self, parts: Mapping[str, Any], count: Any, batch: Batch, at: str) -> None:
        for name, part in parts.items():
            if not isinstance(name, str) or name in (*_TAKEN, *self.names):
                raise BadData(
                    f"{at}: the recipe's loss returns a part with the name {name!r}, which a row of metrics has "
                    "already. Nothing was trained: give it another name."
                )
            number = isinstance(part, Real) or (isinstance(part, Tensor) and part.dim() == 0)
            rows = isinstance(part, Tensor) and count is None and len(part) == self.samples(batch) if not number else 0
            if not number and not rows:
                got = describe_tensor(part) if isinstance(part, Tensor) else type_name(part)
                raise BadData(
                    f"{at}: the part {name!r} of the recipe's loss is {got}. Nothing was trained: a part is a number, "
                    "or one number per sample."
                )

    def _refuse_a_broadcast(self, output: Tensor, batch: Batch, value: Tensor, at: str) -> None:
        """[N, 1] with [N] becomes [N, N]: every output meets every target, so exchanged targets change nothing."""
        targets, size = batch.targets, len(output)
        if {output.dim(), targets.dim()} != {1, 2} or len(targets) != size or size < 4:
            return
        exchanged = targets.roll(1, 0)
        wide = output if output.dim() == 2 else targets
        if wide.shape[1] != 1 or bool((targets == exchanged).all()):
            return
        other = _read(self._called(output, batch._replace(targets=exchanged))).value
        if torch.isclose(value.mean(), other.mean(), rtol=1e-5, atol=0.0):
            raise BadData(
                f"{at}: the recipe's loss gets outputs {list(output.shape)} and targets {list(targets.shape)}, and "
                "stays the same when the targets are exchanged among the samples: they are broadcast to "
                f"[{size}, {size}], and every output is compared with every target. Nothing was trained: bring both to "
                "one shape, as by output.squeeze(1)."
            )

    def _refuse_a_sum(self, output: Tensor, batch: Batch, value: Tensor, at: str) -> None:
        """A sum grows with the batch size: it would be multiplied by the batch size, and change with accumulate."""
        size, half = len(output), len(output) // 2
        parts = []
        for rows in (slice(0, half), slice(half, size)):
            some = map_tensors(batch, lambda t, rows=rows: t[rows] if t.dim() and len(t) == size else t)  # type: ignore[misc]
            parts.append(_read(self._called(output[rows], some)).value)
        adds_up = torch.isclose(value, parts[0] + parts[1], rtol=1e-3, atol=0.0)
        if adds_up and all(float(part.abs()) > 0 for part in parts):
            raise BadData(
                f"{at}: the recipe's loss seems to be a sum over the batch (its halves give {float(parts[0]):.4g} and "
                f"{float(parts[1]):.4g}, the batch {float(value):.4g}). Nothing was trained: use reduction='none', or "
                "return the sum and what to divide it by: `return total, count`."
            )


def _read(returned: Any, at: str = "The loss") -> _Returned:
    """What it returned, sorted: a dict is parts, a number is a count."""
    if not isinstance(returned, tuple):
        return _Returned(returned, None, {})
    value, *rest = returned if returned else (None,)
    count, parts = None, {}
    for number, each in enumerate(rest):
        if isinstance(each, Mapping) and number == len(rest) - 1:
            parts = dict(each)
        elif number == 0 and (isinstance(each, Real) or (isinstance(each, Tensor) and each.dim() == 0)):
            count = each
        else:
            kinds = ", ".join(describe_tensor(it) if isinstance(it, Tensor) else type_name(it) for it in returned)
            raise BadData(f"{at}: the recipe's loss returns ({kinds}). Nothing was trained: {_FORMS}.")
    return _Returned(value, count, parts)
