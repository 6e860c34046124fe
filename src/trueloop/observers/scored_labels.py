"""The labels of the first training losses of a script that cuts its batches itself, without a loader."""

from collections import Counter
from typing import Final

from trueloop.event import LabelsScored, Place
from trueloop.event.operation_names import LABEL_LOSSES
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.batch_samples import integers
from trueloop.taps.calls import BatchDrawn, LossCall

__all__ = ["ScoredLabelsObserver"]

FIRST: Final = 48  # losses of a line
SAMPLES: Final = 8  # labels of one loss: two are often equal


class ScoredLabelsObserver(Observer):
    emits = (LabelsScored,)

    def prepare(self) -> None:
        self._loaded = False  # a loader gives batches
        self._seen: Counter[Place] = Counter()

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._loaded = True

    def loss_called(self, loss: LossCall) -> None:
        if self._loaded or loss.function not in LABEL_LOSSES or loss.place is None or not loss.output.requires_grad:
            return
        if self._seen[loss.place] >= FIRST or loss.options.get("reduction", "mean") == "none":
            return
        target = loss.target
        if not is_plain(target) or not is_readable(target) or not target.is_cpu or target.is_floating_point():
            return
        labels = integers(target) if target.ndim and len(target) >= SAMPLES else None
        if labels is not None:
            self._seen[loss.place] += 1
            self.emit(LabelsScored, loss.place, labels)
