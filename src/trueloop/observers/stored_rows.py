"""Training data in the order in which it is stored: inputs and targets of rows in a row.

The order is known where a loader draws from a dataset with indices, and where the script cuts its batches out of stored
tensors. A sample of rows in a row is copied once from each source and examined at the end of the run. Datasets of the
user's own class are read in a forked copy of the process.
"""

import weakref
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Final

import numpy
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset, default_collate

from trueloop.event import (
    ConstantPart,
    FutureInColumn,
    PairsMatched,
    Place,
    RenamedPart,
    ReorderedTargets,
    ShiftedPart,
    StoredOrderCompared,
)
from trueloop.event.operation_names import PICKS
from trueloop.measure.look_ahead import future_in_columns
from trueloop.measure.pairs import paired
from trueloop.measure.stored_order import SHIFTS, StoredTable, examine, reordered
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, ModuleCall, OperationCall, ProgramStart, RunEnd
from trueloop.taps.fork import CannotFork, run_in_fork
from trueloop.torch_private.tensors import tensor_version

__all__ = ["StoredRowsObserver"]

MOST_SOURCES: Final = 3
LEAST_ROWS: Final = 200
MOST_ROWS: Final = 1200
RUNS: Final = 8  # of rows in a row, evenly spread, where there are more
MOST_ELEMENTS: Final = 2**22
WIDEST_TARGET: Final = 64  # numbers
WIDEST_INPUT: Final = 256
FITS: Final = 0.35  # correlation of predictions with the targets of the rows: with more, they are in order
SECONDS: Final = 0.25  # of computing, to read a dataset of the user's own class
LIMIT: Final = 3.0  # seconds on a busy machine
_PICKS: Final = frozenset({"gather", "index_select", "__getitem__", "scatter", "scatter_add", "embedding", "take"})


@dataclass(slots=True)
class _Source:
    parts: list[Tensor]  # of the rows that were read
    places: Tensor
    length: int
    versions: tuple[int, ...] = ()  # of the stored tensors: a buffer that is filled again is not stored data
    place: Place | None = None  # the training call of the model
    inputs: set[int] = field(default_factory=set)  # parts that entered a model
    targets: set[int] = field(default_factory=set)  # parts that its outputs were compared with


class StoredRowsObserver(Observer):
    emits = (StoredOrderCompared, PairsMatched, FutureInColumn)
    rarely = ("module_call_started", "batch_drawn")

    def prepare(self) -> None:
        self._sources: dict[object, _Source] = {}
        self._by_loader: dict[int, object] = {}
        self._recording = False
        self._cuts: dict[object, tuple[_Source, list[Tensor]]] = {}
        """By length and index: what was cut with this index in this step, and from which tensors."""
        self._known: dict[int, tuple[weakref.ref[Tensor], _Source, int]] = {}
        """Tensors that were computed from a part of a source, without a model."""
        self._indices: list[Any] = []  # of the cuts, until the step ends: an identity must stay that of one object

    # -- sources --

    @torch.no_grad()
    def loader_started(self, start: LoaderStart) -> None:
        loader = start.loader
        dataset: Any = loader.dataset
        while type(dataset) is Subset:
            dataset = dataset.dataset
        number = self.bus.ordinal("loader", loader)
        if number in self._by_loader or isinstance(dataset, IterableDataset) or loader.batch_sampler is None:
            return
        key = self.bus.ordinal("stored", dataset) if type(dataset).__weakrefoffset__ else ("dataset", id(dataset))
        self._by_loader[number] = key
        if key not in self._sources and len(self._sources) < MOST_SOURCES:
            found = _read(loader, dataset)
            if found is not None:
                self._sources[key] = found

    def program_started(self, start: ProgramStart) -> None:
        self._recording = start.phase == "training"
        self._forget()

    @torch.no_grad()
    def program_ended(self, _: ProgramStart) -> None:
        for source, stored in self._cuts.values():
            key = ("cut", *(tensor.data_ptr() for tensor in stored))
            known, versions = self._sources.get(key), tuple(map(tensor_version, stored))
            if known is not None and known.versions != versions:
                known.parts.clear()
            elif known is not None:
                known.inputs |= source.inputs
                known.targets |= source.targets
            elif source.inputs and source.targets - source.inputs and len(self._sources) < MOST_SOURCES:
                source.parts = [_copy(tensor, source.places) for tensor in stored]
                source.versions = versions
                self._sources[key] = source
        self._recording = False
        self._forget()

    def _forget(self) -> None:
        self._cuts.clear()
        self._known.clear()
        self._indices.clear()

    # -- what becomes of them --

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        source = None if drawn.number is None else self._sources.get(self._by_loader.get(drawn.number))
        if self._recording and source is not None:
            for index, tensor in enumerate(_parts(drawn.batch)):
                if index < len(source.parts):
                    self._known[id(tensor)] = (weakref.ref(tensor), source, index)

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        if not self._recording or self.bus.call is not None or self.bus.fetching:
            return
        if call.name in PICKS and len(call.args) > 1 and isinstance(call.output, Tensor):
            self._cut(call)
        given = [*tensors_in(call.args, 8), *tensors_in(call.kwargs, 8)]
        found = next((known for known in map(self._lookup, given) if known is not None), None)
        if found is None or len(self._known) > 512:
            return
        _, source, index = found
        if any(tensor.requires_grad for tensor in given):
            if call.name not in _PICKS:
                source.targets.add(index)
            return
        for tensor in tensors_in(call.output, 8):
            self._known[id(tensor)] = (weakref.ref(tensor), source, index)

    def module_call_started(self, call: ModuleCall) -> None:
        if not self._recording or not call.grad or self.objects.model(call.module) is None:
            return
        for tensor in (*tensors_in(call.args, 8), *tensors_in(call.kwargs, 8)):
            found = self._lookup(tensor)
            if found is not None:
                found[1].inputs.add(found[2])
                found[1].place = found[1].place or call.place

    def _lookup(self, tensor: Tensor) -> tuple[weakref.ref[Tensor], _Source, int] | None:
        known = self._known.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None

    def _cut(self, call: OperationCall) -> None:
        """Two stored tensors of one length that are cut with one index: rows and their targets."""
        stored, index = call.args[0], call.args[1] if call.name == "__getitem__" else call.args[-1]
        index = index[0] if isinstance(index, tuple) and index else index
        plain = is_plain(stored) and is_readable(stored) and not stored.requires_grad
        if not plain or not stored.ndim or len(stored) < LEAST_ROWS or self._lookup(stored) is not None:
            return
        if isinstance(index, slice):
            same: object = (index.start, index.stop, index.step)
        elif isinstance(index, (Tensor, list)):
            self._indices.append(index)
            same = id(index)
        else:
            return
        places = _places(len(stored), min(len(stored), MOST_ROWS))
        source, kept = self._cuts.setdefault((same, len(stored)), (_Source([], places, len(stored)), []))
        number = next((index for index, tensor in enumerate(kept) if tensor is stored), len(kept))
        if number == len(kept) and stored[0].numel() * len(places) <= MOST_ELEMENTS:
            kept.append(stored)
        if number < len(kept):
            self._known[id(call.output)] = (weakref.ref(call.output), source, number)

    # -- facts --

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        for source in self._sources.values():
            inputs = [index for index in source.inputs if source.parts and source.parts[index].ndim > 1]
            if not inputs:
                continue
            chosen = max(inputs, key=lambda index: source.parts[index][0].numel())
            for index in source.targets - source.inputs:
                targets = source.parts[index]
                if not len(targets) == len(source.places) == len(source.parts[chosen]):
                    continue
                if targets[0].numel() <= WIDEST_TARGET:
                    self._examine(source, source.parts[chosen], targets)
                found = paired(source.parts[chosen], targets, source.places)
                if found is not None:
                    self.emit(PairsMatched, source.place, found.rows, source.length, *found[1:])

    def _examine(self, source: _Source, rows: Tensor, targets: Tensor) -> None:
        self._look_ahead(source, rows, targets)
        table = StoredTable(rows, targets, source.places)
        found = examine(table)
        if found is None:
            return
        other = reordered(table, source.length) if found.scores[SHIFTS] < FITS else None
        part, same = found.renamed, found.constant
        self.emit(
            StoredOrderCompared, source.place, found.rows, source.length, found.classes, found.scores, found.shift,
            found.copied, found.related, found.halves, found.kinks,
            part=None if found.part is None else ShiftedPart(*found.part, found.part_shift, *found.part_scores),
            renamed=None if part is None
            else RenamedPart(*part.part, part.codes, part.agree, part.before, part.elsewhere),
            constant=None if same is None
            else ConstantPart(*same.part, same.code, same.recall, same.elsewhere, same.apart),
            reordered=None if other is None else ReorderedTargets(*other),
        )  # fmt: skip

    def _look_ahead(self, source: _Source, rows: Tensor, targets: Tensor) -> None:
        if not rows.is_floating_point() or not targets.is_floating_point() or targets.numel() != len(targets):
            return
        if rows[0].numel() > WIDEST_INPUT or not bool(rows.isfinite().all() and targets.isfinite().all()):
            return
        found = future_in_columns(rows.double().numpy(), targets.double().numpy(), source.places.numpy())
        if found is not None:
            columns = rows[0].numel()
            self.emit(FutureInColumn, source.place, found.column, columns, found.last, found.known, found.rows)


def _parts(batch: Any) -> list[Tensor]:
    return [t for t in tensors_in(batch, 8) if t.ndim and is_plain(t) and is_readable(t)]


def _places(length: int, count: int) -> Tensor:
    """All, or some runs of rows in a row, evenly spread."""
    if count >= length:
        return torch.arange(length)
    size = count // RUNS
    return torch.cat(
        [first + torch.arange(size) for first in torch.linspace(0, length - size, RUNS, dtype=torch.float64).long()]
    )


def _copy(stored: Tensor, places: Tensor) -> Tensor:
    return stored.detach()[places.to(stored.device)].cpu()


def _read(loader: DataLoader[Any], dataset: Any) -> _Source | None:
    try:
        length = len(dataset)
    except Exception:  # noqa: BLE001 - the user's own `__len__`: without a length no order of rows is known
        return None
    if length < LEAST_ROWS:
        return None
    if type(dataset) is TensorDataset:
        places = _places(length, min(length, MOST_ROWS))
        parts = [_copy(t, places) for t in dataset.tensors if t[0].numel() * len(places) <= MOST_ELEMENTS]
        return _Source(parts, places, length) if len(parts) == len(dataset.tensors) else None
    if type(dataset) is ConcatDataset and loader.collate_fn is default_collate and _is_one_table(dataset):
        places = _places(length, min(length, MOST_ROWS))
        return _Source(_parts(default_collate([dataset[i] for i in places.tolist()])), places, length)
    try:
        drawn = run_in_fork(lambda: _draw(loader, dataset, length), LIMIT)
    except CannotFork:
        return None
    if drawn is None:
        return None
    return _Source([torch.from_numpy(part) for part in drawn[0]], torch.from_numpy(drawn[1]), length)


def _is_one_table(dataset: ConcatDataset[Any]) -> bool:
    """Stored tensors with rows of one shape, joined."""
    parts = [part.tensors if type(part) is TensorDataset else () for part in dataset.datasets]
    kinds = {tuple((t.shape[1:], t.dtype, t.device) for t in tensors) for tensors in parts}
    return len(kinds) == 1 and () not in kinds


def _draw(loader: DataLoader[Any], dataset: Any, length: int) -> tuple[list[Any], Any] | None:
    """Runs in a forked copy."""
    began = process_time()
    for index in range(4):
        dataset[index]
    affordable = int(SECONDS / max(1e-6, (process_time() - began) / 4))
    count = min(length, MOST_ROWS, affordable)
    if count < LEAST_ROWS:
        return None
    places = _places(length, count)
    parts = _parts(loader.collate_fn([dataset[index] for index in places.tolist()]))
    if not parts or any(len(part) != len(places) for part in parts):
        return None
    if sum(part.numel() for part in parts) > MOST_ELEMENTS:
        return None
    arrays = [(part.float() if part.is_floating_point() else part).cpu().numpy() for part in parts]
    return [numpy.ascontiguousarray(array) for array in arrays], places.numpy()
