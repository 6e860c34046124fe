"""Do equal inputs have equal labels? Counted over the first batches of a loader of (inputs, class labels)."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from trueloop.event import LabelsCompared, Place
from trueloop.event.operation_names import LABEL_LOSSES
from trueloop.observers.observer import Observer
from trueloop.taps.batch_samples import digests, integers
from trueloop.taps.calls import BatchDrawn, LoaderStart, LossCall, RunEnd

__all__ = ["LabelConflictsObserver"]

BATCHES: Final = 64  # batches of the first pass to read
SAMPLES: Final = 20_000  # samples to remember
RICH: Final = 16
"""Elements of a sample that are nonzero and not all equal: with fewer, equal inputs may be normal (discrete
features)."""
READ: Final = 512  # elements of a sample to read


@dataclass(slots=True)
class _Record:
    """The first pass over one loader."""

    place: Place | None
    batches: int = 0
    confirmed: bool = False  # its labels went into a classification loss
    known: dict[int, int] = field(default_factory=dict)  # label by digest of the input
    labels: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    agreed: int = 0


class LabelConflictsObserver(Observer):
    emits = (LabelsCompared,)

    def prepare(self) -> None:
        self._records: dict[int, _Record | None] = {}  # none once it is emitted, or not worth counting
        self._latest: tuple[_Record, tuple[int, ...]] | None = None  # labels of the latest batch, until used

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        if number in self._records:
            self._report(number)
        else:
            self._records[number] = _Record(start.place) if _draws_each_once(start.loader) else None

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        record = None if drawn.number is None else self._records.get(drawn.number)
        if record is None or record.batches == BATCHES:
            return
        record.batches += 1
        self._latest = None
        pair = _inputs_and_labels(drawn)
        if pair is None or len(record.known) > SAMPLES:
            return
        with torch.no_grad():
            inputs, labels = pair
            found = digests([inputs]) if len(inputs) == len(labels) else ()
            rich = _rich(inputs) if len(found) == len(labels) else []
        if not record.confirmed:
            self._latest = (record, labels)
        for digest, label, enough in zip(found, labels, rich, strict=False):
            if enough:
                record.labels[label] += 1
                before = record.known.get(digest)
                record.known.setdefault(digest, label)
                record.repeated += before is not None
                record.agreed += before == label

    def loss_called(self, loss: LossCall) -> None:
        if self._latest is not None and loss.output.requires_grad:
            record, labels = self._latest
            if loss.function in LABEL_LOSSES and loss.target.dim() == 1 and integers(loss.target) == labels:
                record.confirmed = True
            self._latest = None

    def run_ended(self, end: RunEnd) -> None:
        for number in tuple(self._records):
            self._report(number)

    def _report(self, number: int) -> None:
        record, self._records[number] = self._records[number], None
        if record is None or not record.confirmed:
            return
        labels, total = record.labels, record.labels.total()
        expected = sum((count / total) ** 2 for count in labels.values()) if total else 0.0
        compared = (number, total, record.repeated, record.agreed, expected, len(labels))
        self.emit(LabelsCompared, record.place, *compared)


def _draws_each_once(loader: DataLoader[Any]) -> bool:
    """Drawn by PyTorch's own samplers, without replacement: others may give a sample several labels on purpose."""
    if type(loader.batch_sampler) is not BatchSampler:
        return False
    sampler = loader.sampler
    return type(sampler) is SequentialSampler or (type(sampler) is RandomSampler and not sampler.replacement)


def _inputs_and_labels(drawn: BatchDrawn) -> tuple[Tensor, tuple[int, ...]] | None:
    """A batch of one floating-point input tensor and one integer label tensor."""
    batch = drawn.batch
    if not drawn.stacked or not isinstance(batch, (list, tuple)) or len(batch) != 2:
        return None
    inputs, labels = batch
    if not (isinstance(inputs, Tensor) and isinstance(labels, Tensor)) or inputs.dim() < 2 or labels.dim() != 1:
        return None
    if not (inputs.is_floating_point() or inputs.dtype == torch.uint8) or labels.is_floating_point():
        return None
    values = integers(labels)
    return None if values is None or inputs.shape[0] != len(values) else (inputs, values)


def _rich(inputs: Tensor) -> list[bool]:
    flat = inputs.reshape(inputs.shape[0], -1)
    some = flat[:, :: -(-flat.shape[1] // READ)]
    answers: list[bool] = (((some != 0).sum(1) >= RICH) & (some != some[:, :1]).any(1)).tolist()
    return answers
