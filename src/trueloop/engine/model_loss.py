"""The loss that a model computes itself, `output.loss`, as models of Hugging Face do when a batch holds labels.

It is a mean, and what it is a mean over is measured: labels that are not -100, such labels without the first of each
row (a causal model predicts the next token), or samples. With the right divisor `accumulate` is exact.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.data.source import Batch, map_tensors, size_of
from trueloop.engine.call_model import call_model, takes_names
from trueloop.engine.evaluate import evaluating
from trueloop.engine.targets import describe_tensor, type_name
from trueloop.engine.task_kind import LossState, LossSum, Task
from trueloop.errors import BadData
from trueloop.measure.model import restored_buffers
from trueloop.torch_private.autograd import mask_gradient

__all__ = ["LABELS", "MEASURED", "ModelLoss", "computes_its_loss", "takes_labels"]

LABELS: Final = "labels"
IGNORED: Final = -100
ROUNDING: Final = 1e-4  # relative
MEASURED: Final = 4  # samples to find out with whether a model computes its loss, and what it is a mean over

_COUNTS: Final[Mapping[str, Callable[[Tensor], Any]]] = {
    "labels after the first of each row": lambda labels: (labels[:, 1:] != IGNORED).sum() if labels.dim() == 2 else 0,
    "labels": lambda labels: (labels != IGNORED).sum(),
    "samples": len,
}
_NEXT, _EACH, _SAMPLES = _COUNTS


def computes_its_loss(model: nn.Module, batch: Batch) -> bool:
    """Does the model take this batch by name and return an output with a loss?"""
    if not isinstance(batch.inputs, Mapping) or not takes_names(model, batch.inputs):
        return False
    with evaluating(model), restored_buffers(model):
        return isinstance(getattr(call_model(model, batch.inputs), "loss", None), Tensor)


def takes_labels(model: nn.Module) -> bool:
    """Has its forward a parameter for them?"""
    return takes_names(model, {LABELS: None})


@final
class ModelLoss(Task):
    """`output.loss`, and the accuracy where logits and labels allow it."""

    metric = "loss"
    higher_is_better = False

    def __init__(self, model: nn.Module, batch: Batch | None) -> None:
        """`batch`: a few samples to measure with; None: the first batch of a stream, when it comes."""
        self.model, self.over, self.exact = model, "", True
        if batch is not None:
            self._learn(batch)

    def _learn(self, batch: Batch) -> None:
        model = self.model
        self.over, self.exact = _measured(model, batch)
        with evaluating(model), restored_buffers(model):
            logits = getattr(call_model(model, batch.inputs), "logits", None)
        answers = self._answers(logits, batch.targets)
        self.sums = () if answers is None else ("accuracy", "answers")
        whole = answers is not None and answers[0].dim() == 1  # one answer per sample
        self.metric, self.higher_is_better = ("accuracy", True) if whole else ("loss", False)

    @property
    def note(self) -> str:
        """For the start of the run."""
        if not self.over:
            return "loss: the model's own; what it is a mean over is measured on the first batch."
        if self.exact:
            return f"loss: the model's own, a mean over {self.over} (measured)."
        return (
            "loss: the model's own, which is not a mean over labels or samples (measured): with accumulate, or a small "
            "last batch, steps differ slightly. A loss of your own, loss(output, targets), can be exact."
        )

    def count(self, targets: Any) -> int | Tensor:
        found: int | Tensor = _COUNTS[self.over](targets)
        return found

    def count_of(self, batch: Batch) -> int | Tensor:
        if not self.over:
            size = size_of(batch.inputs)
            self._learn(map_tensors(batch, lambda t: t[:MEASURED] if t.dim() and len(t) == size else t))
        return size_of(batch.inputs) if self.over == _SAMPLES else self.count(batch.targets)

    def loss(self, output: Any, batch: Batch, state: LossState | None = None) -> LossSum:
        if isinstance(output, Tensor):
            return LossSum(self._of_logits(output, batch.targets))
        return LossSum(_total(output, self.count_of(batch)))

    def loss_sum(self, output: Any, targets: Any) -> Tensor:
        if isinstance(output, Tensor):
            return self._of_logits(output, targets)
        return _total(output, self.count(targets))

    def _of_logits(self, logits: Tensor, labels: Tensor) -> Tensor:
        """An exported model returns its logits only: the loss is what such models compute from them."""
        if labels.is_floating_point():
            each = F.mse_loss if logits.shape[-1] == 1 else F.binary_cross_entropy_with_logits
            return each(logits.view_as(labels), labels, reduction="sum") * (len(labels) / labels.numel())
        if self.over == _NEXT:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")

    def _answers(self, logits: Any, labels: Any) -> tuple[Tensor, Tensor] | None:
        """The chosen class of each label, and the label; None: they do not fit together."""
        if not isinstance(logits, Tensor) or not isinstance(labels, Tensor) or labels.is_floating_point():
            return None
        if logits.dim() != labels.dim() + 1 or logits.shape[:-1] != labels.shape or logits.shape[-1] < 2:
            return None
        if self.over == _NEXT:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return logits.argmax(-1), labels

    def measures(self, output: Any, targets: Any) -> dict[str, Tensor]:
        found = self._answers(output if isinstance(output, Tensor) else output.logits, targets) if self.sums else None
        if found is None:
            return {}
        chosen, labels = found
        return {"accuracy": ((chosen == labels) & (labels != IGNORED)).sum(), "answers": (labels != IGNORED).sum()}

    def metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        values = {"loss": totals["loss"] / totals["count"]}
        return values | ({"accuracy": totals["accuracy"] / (totals["answers"] or 1.0)} if self.sums else {})

    def check(self, output: Any, targets: Any, at: str) -> None:
        loss = getattr(output, "loss", None)
        if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
            got = describe_tensor(loss) if isinstance(loss, Tensor) else type_name(loss)
            raise BadData(
                f"{at}: the model's output has the loss {got}, and it must be one number. Nothing was trained: give "
                f"the batch its {LABELS!r}, or the recipe a loss of your own, loss(output, targets)."
            )


def _total(output: Any, count: int | Tensor) -> Tensor:
    """The mean times its divisor. A mean over nothing is NaN, and so is its gradient: a micro-batch in which no label
    counts adds 0 instead, without a wait for the device."""
    loss: Tensor = output.loss
    if not isinstance(count, Tensor):
        return loss * count
    empty, logits = count == 0, getattr(output, "logits", None)
    if isinstance(logits, Tensor) and logits.requires_grad:
        mask_gradient(logits, empty)
    return (loss * count).masked_fill(empty, 0.0)


def _measured(model: nn.Module, batch: Batch) -> tuple[str, bool]:
    """What the loss is a mean over, and whether that was found: the loss of all must be that of the parts together."""
    labels, size = batch.targets, size_of(batch.inputs)
    if not isinstance(labels, Tensor) or size < 2:
        return _SAMPLES, not isinstance(labels, Tensor)
    if not labels.is_floating_point():
        labels = _some_ignored(labels)
    inputs = {**batch.inputs, LABELS: labels} if LABELS in batch.inputs else batch.inputs
    losses = []
    with evaluating(model), restored_buffers(model):
        for rows in (slice(0, size), slice(0, 1), slice(1, size)):
            some = map_tensors(inputs, lambda t, rows=rows: t[rows] if t.dim() and len(t) == size else t)  # type: ignore[misc]
            losses.append((float(call_model(model, some).loss), labels[rows]))
    errors = {_SAMPLES: _error(losses, len)}
    if not labels.is_floating_point():
        errors = {name: _error(losses, count) for name, count in _COUNTS.items()}
    best = min(errors, key=errors.__getitem__)  # of a new model all losses are nearly alike, so several may be close
    return (best, True) if errors[best] <= ROUNDING else (_SAMPLES, False)


def _error(losses: list[tuple[float, Tensor]], count: Callable[[Tensor], Any]) -> float:
    """How far the loss of all is from that of the parts together, if the divisor is this, relative to it."""
    whole, *parts = (loss * float(count(labels)) for loss, labels in losses)
    error = abs(whole - sum(parts)) / abs(whole) if whole else math.inf
    return error if math.isfinite(error) else math.inf


def _some_ignored(labels: Tensor) -> Tensor:
    """With different numbers of labels in each row, some in each, so that the ways to count them differ."""
    changed = labels.clamp(min=0)
    if labels.dim() == 2:
        changed[1:, 2:] = IGNORED
        changed[0, : labels.shape[1] // 2] = IGNORED
    elif labels.dim() == 1 and len(labels) > 2:
        changed[1] = IGNORED
    return changed
