"""Batches of loaders with NaN or Inf, and whether those reached a loss or a decision.

Some batches of each loader are checked. Most bad batches make a training loss non-finite and are reported from there
(see nonfinite.py). Here the others: those of an evaluation, and those on a device whose losses are not read at every
step.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import InputNotFinite, Place
from trueloop.measure.nonfinite import bad_rows, not_finite
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BatchDrawn, DecisionCall, LoaderStart, LossCall, ModuleCall, tensors_in

__all__ = ["NonfiniteInputsObserver"]

FIRST: Final = 16  # first batches of a loader, all checked; after those the 32nd, the 64th, and so on
DEEP: Final = 4  # nesting depth of a batch


class NonfiniteInputsObserver(Observer):
    emits = (InputNotFinite,)

    def prepare(self) -> None:
        self._seen: Counter[int] = Counter()  # batches of each loader, over all passes
        self._drawn: dict[int, int] = {}
        self._passes: Counter[int] = Counter()
        self._bad: dict[str, Any] | None = None  # facts about the latest batch, if it is bad
        self._place: Place | None = None  # the call of a model whose output is non-finite because of it
        self._into = ""

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        self._passes[number] += 1
        self._drawn[number] = 0

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._bad = None
        number = drawn.number
        if number is None:
            return
        self._seen[number] += 1
        self._drawn[number] = self._drawn.get(number, 0) + 1
        seen = self._seen[number]
        if seen > FIRST and seen & (seen - 1):
            return
        with torch.no_grad():
            for where, tensor in _named(drawn.batch):
                if tensor.is_cpu and (found := bad_rows(tensor)) is not None:
                    counts = {"loader": number, "passes": self._passes[number], "index": self._drawn[number] - 1}
                    facts = {"tensor": where, "sample": found[0], "bad_samples": found[1], "value": found[2]}
                    self._bad = counts | facts
                    self._bad["size"] = tensor.shape[0]
                    self._place, self._into = None, ""
                    return

    # -- what became of it --

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._bad is None or call.failed or (known := self.objects.model(call.module)) is None:
            return
        if any(not_finite(tensor.detach()) for tensor in tensors_in(call.output, limit=4)):
            self._place, self._into = call.place, known.name

    def loss_called(self, loss: LossCall) -> None:
        if self._bad is None or loss.output.requires_grad or loss.output.dim() or not not_finite(loss.output):
            return
        if not_finite(loss.target):
            self._report(loss.place, f"{loss.function}, target", evaluating=True)
        elif self._into and not_finite(loss.input):
            self._report(self._place, self._into, evaluating=True)

    def decision_made(self, decision: DecisionCall) -> None:
        if self._bad is not None and self._into and not decision.input.requires_grad and not_finite(decision.input):
            self._report(self._place, self._into, evaluating=True)

    def backward_started(self, call: BackwardCall) -> None:
        if self._bad is None or not self._into or not call.tensors:
            return
        loss = call.tensors[0]
        if type(loss) is Tensor and not_finite(loss.detach()):
            self._report(self._place, self._into, evaluating=False)

    def _report(self, place: Place | None, into: str, *, evaluating: bool) -> None:
        facts, self._bad = self._bad, None
        if facts is not None:
            self.emit(InputNotFinite, place, **facts, into=into, evaluating=evaluating)


def _named(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a batch with their paths: `[0]`, `['image']`."""
    if isinstance(value, Tensor):
        yield path or "[:]", value
    elif depth < DEEP and isinstance(value, (Mapping, tuple, list)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in list(items)[:16]:
            yield from _named(item, f"{path}[{key!r}]", depth + 1)
