"""Batches of loaders: their samples, their order, and whether they train or only evaluate.

The first batches of the first passes are inspected, and a few later ones; the others cost one count. The memory of a
batch shows which forward and which loss used it, or else the order of calls; a hook on the output's node shows that a
backward came.
"""

import weakref
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

from trueloop.event import BatchInspected, Place
from trueloop.event.operation_names import BINARY_LOSSES, LABEL_LOSSES
from trueloop.observers.observer import Observer
from trueloop.taps import calls
from trueloop.taps.batch_samples import are_windows, digests, integers, likeness, rows_of
from trueloop.taps.graph_notes import BATCH, write_note

__all__ = ["BatchesObserver"]

FIRST: Final = 32  # batches in a row, from the start of the first pass over a loader
EVERY: Final = 16  # after those, one batch in so many
MOST: Final = 96  # batches in all: enough to meet the samples of another loader, a tenth of a second of work
AGAIN: Final = 16  # batches of later passes, to compare their order with the first pass
PASSES: Final = 6  # passes that are inspected: three of training, each followed by one of evaluation
LOADERS: Final = 12  # loaders from one line, between two optimizers: one may be built again in each epoch
WAITING: Final = 64  # later batches that a batch waits for before it is emitted: its step may come later
RECENT: Final = 2  # batches, over all loaders, that a call may belong to: two loaders in parallel, or one read ahead
COMPARABLE: Final = 4  # samples that show whether neighbors are more alike than others
ORDERED: Final = ("sequential", "stream")


Order = Literal["random", "sequential", "stream", "distributed", "other"]
Fate = Literal["trained", "evaluated", "unknown"]


class _Marker:
    """Stored in a graph node; freed with it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class _Look:
    """One batch. Holds numbers and weak references only."""

    facts: dict[str, Any]
    memory: frozenset[int]  # addresses of its tensors
    columns: list[tuple[int, ...]]  # columns that may be its labels
    models: set[int] = field(default_factory=set)
    labels: tuple[int, ...] = ()
    carried: bool = False
    scored: bool = False
    graphs: list[weakref.ref[_Marker]] = field(default_factory=list)
    backwards: bool = False
    stepped: int | None = None  # the step that trained on it

    def fate(self) -> Fate:
        if self.stepped is not None:
            return "trained"
        done = self.models and not self.backwards and all(life() is None for life in self.graphs)
        return "evaluated" if done else "unknown"


@dataclass(slots=True)
class _Record:
    """What is known of one loader."""

    facts: dict[str, Any]
    life: int
    passes: int = 0
    drawn: int = 0
    looks: int = 0
    place: Place | None = None
    closed: bool = False  # not inspected any more
    pending: deque[_Look] = field(default_factory=deque)


class BatchesObserver(Observer):
    emits = (BatchInspected,)

    def prepare(self) -> None:
        self._records: dict[int, _Record] = {}
        self._built: WeakKeyDictionary[data.DataLoader[Any], Place] = WeakKeyDictionary()
        self._lines: Counter[tuple[int, Place | None]] = Counter()  # loaders from each line, per optimizer built
        self._life = 0
        self._recent: deque[_Look | None] = deque(maxlen=RECENT)
        self._open = False  # one of the recent batches is inspected
        self._moving: list[_Look] = []  # batches with a backward whose step has not come yet
        self._made: frozenset[int] = frozenset()  # addresses of the outputs of the latest call on a batch

    # -- passes --

    def loader_built(self, built: calls.BuiltLoader) -> None:
        if built.place is not None:
            self._built[built.loader] = built.place

    def optimizer_built(self, built: calls.BuiltOptimizer) -> None:
        self._life += 1

    def loader_started(self, start: calls.LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        record = self._records.get(number)
        if record is None:
            record = self._records[number] = _Record(self._facts(start.loader, number), self._life)
            line = (self._life, record.facts["built"] or start.place)
            self._lines[line] += 1
            record.closed = self._lines[line] > LOADERS
        self._emit_known(record)
        if record.life != self._life:
            record.life, record.passes = self._life, 0
        record.passes += 1
        record.drawn = record.looks = 0
        record.place = start.place

    def _facts(self, loader: data.DataLoader[Any], number: int) -> dict[str, Any]:
        dataset = loader.dataset
        return {
            "loader": number,
            "dataset": self.bus.ordinal("dataset", dataset) if type(dataset).__weakrefoffset__ else -1,
            "built": self._built.get(loader),
            "samples": _samples(loader),
            "order": _order(loader),
            "with_replacement": bool(getattr(_sampler(loader), "replacement", False)),
            "own_generator": any(getattr(thing, "generator", None) is not None for thing in (loader, loader.sampler)),
        }

    # -- batches --

    def batch_drawn(self, drawn: calls.BatchDrawn) -> None:
        record = None if drawn.number is None else self._records.get(drawn.number)
        if record is None:
            return
        index = record.drawn
        record.drawn += 1
        if self._moving:
            self._moving = [look for look in self._moving if look.facts["loader"] == record.facts["loader"]]
        look = None
        if _is_due(record, index):
            with torch.no_grad():
                look = self._look(record, index, drawn)
        self._recent.append(look)
        self._open = look is not None or any(self._recent)

    def _look(self, record: _Record, index: int, drawn: calls.BatchDrawn) -> _Look | None:
        rows = rows_of(drawn.batch, stacked=drawn.stacked)
        if not rows:
            return None
        record.looks += 1
        ordered = record.facts["order"] in ORDERED and record.passes == 1 and index < AGAIN
        facts = {
            **record.facts,
            "step": self.bus.step,
            "place": record.place,
            "optimizers_built": record.life,
            "passes": record.passes,
            "index": index,
            "size": rows[0].shape[0],
            "rows": digests(rows),
            "neighbor_distance": tuple(likeness(row) for row in rows)
            if ordered and rows[0].shape[0] >= COMPARABLE
            else (),
            "windows": ordered and are_windows(rows),
        }
        columns = [values for row in rows if row.dim() <= 2 and row.is_cpu and (values := integers(row)) is not None]
        facts["placeholder"] = next((values[0] for values in columns if len(rows) > 1 and len(set(values)) == 1), None)
        look = _Look(facts, _memory_of(rows), columns)
        record.pending.append(look)
        if len(record.pending) > WAITING:
            self._report(record.pending.popleft())
        return look

    # -- what becomes of them --

    def module_call_ended(self, call: calls.ModuleCall) -> None:
        if not self._open or call.failed:
            return
        known = self.objects.model(call.module)
        given = _memory_of(calls.tensors_in((call.args, call.kwargs), limit=8))
        look = None if known is None else self._look_at(given)
        if look is None or known is None:
            return
        look.models.add(known.number)
        look.carried = look.carried or bool(self._made & (given - look.memory))
        made = list(calls.tensors_in(call.output, limit=4))
        self._made = _memory_of(made)
        for tensor in made:
            if (node := tensor.grad_fn) is not None:
                life = _Marker()
                write_note(tensor, BATCH, life)
                look.graphs.append(weakref.ref(life))
                node.register_prehook(self._hook_for(look))

    def _look_at(self, given: frozenset[int]) -> _Look | None:
        """The batch in whose memory the inputs are; else the latest one."""
        for look in reversed(self._recent):
            if look is not None and look.memory & given:
                return look
        return self._recent[-1]

    def _hook_for(self, look: _Look) -> Any:
        def came(gradients: object) -> None:
            if not look.backwards:
                look.backwards = True
                self._moving.append(look)

        return came

    def decision_made(self, decision: calls.DecisionCall) -> None:
        if self._open:
            self._score()

    def _score(self) -> None:
        latest = self._recent[-1]
        if latest is not None and latest.models:
            latest.scored = True

    def loss_called(self, loss: calls.LossCall) -> None:
        if not self._open:
            return
        if not loss.output.dim():
            self._score()
        if not loss.output.requires_grad:
            return
        wanted = [look for look in self._recent if look is not None and not look.labels and look.columns]
        target = loss.target
        known = loss.function in LABEL_LOSSES | BINARY_LOSSES
        if not wanted or not known or not target.dim() or target.shape[0] != target.numel():
            return
        for look in wanted:
            labels = _labels(look, target) if target.shape[0] == look.facts["size"] else None
            if labels is not None and (loss.function in LABEL_LOSSES or set(labels) <= {0, 1}):
                look.labels = labels

    def step_ended(self, call: calls.StepCall) -> None:
        if self._moving:
            for look in self._moving:
                look.stepped = self.bus.step
            self._moving = []

    # -- telling --

    def run_ended(self, end: calls.RunEnd) -> None:
        for record in self._records.values():
            self._emit_known(record)

    def _emit_known(self, record: _Record) -> None:
        while record.pending:
            self._report(record.pending.popleft())

    def _report(self, look: _Look) -> None:
        seen: dict[str, Any] = {"models": tuple(sorted(look.models)), "labels": look.labels, "scored": look.scored}
        seen |= {"carries_state": look.carried, "stepped": look.stepped, "fate": look.fate()}
        self.bus.emit(BatchInspected(**look.facts, **seen))


def _labels(look: _Look, target: Tensor) -> tuple[int, ...] | None:
    """The column of the batch that the target is. On a device, where a read makes the host wait: the only candidate."""
    if not target.is_cpu:
        return look.columns[0] if len(look.columns) == 1 else None
    values = integers(target)
    return values if values in look.columns else None


def _is_due(record: _Record, index: int) -> bool:
    if record.closed:
        return False
    if record.passes == 1:
        return index < FIRST or (index % EVERY == 0 and record.looks < MOST)
    return index < AGAIN and record.passes <= PASSES


def _memory_of(tensors: Any) -> frozenset[int]:
    """Addresses of their storages."""
    found: set[int] = set()
    for tensor in tensors:
        if type(tensor) is Tensor and tensor.layout is torch.strided and not tensor.is_meta:
            found.add(tensor.untyped_storage().data_ptr())
    return frozenset(found - {0})


def _sampler(loader: data.DataLoader[Any]) -> Any:
    """The sampler of single samples; None for a batch sampler of the user."""
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    return batches.sampler if type(batches) is data.BatchSampler else None


def _order(loader: data.DataLoader[Any]) -> Order:
    if isinstance(loader.dataset, data.IterableDataset):
        return "stream"
    sampler = _sampler(loader)
    if type(sampler) in (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler):
        return "random"
    if isinstance(sampler, DistributedSampler):
        return "distributed" if sampler.shuffle else "sequential"
    return "sequential" if type(sampler) is data.SequentialSampler else "other"


def _samples(loader: data.DataLoader[Any]) -> int | None:
    try:
        return len(_sampler(loader))
    except (TypeError, NotImplementedError):  # a stream has no length, nor has every sampler
        return None
