"""Training tables that were standardized, and evaluated batches that standardize themselves.

The table is known where a loader reads stored tensors or arrays, and where the script cuts its batches out of a stored
tensor. Its statistics, over all rows, say by construction how it was normalized. Only numbers are kept.
"""

import weakref
from dataclasses import dataclass, field
from typing import Any, Final

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset, Subset, TensorDataset

from trueloop.event import ChannelsPooled, Place, TableStandardized
from trueloop.event.operation_names import PICKS
from trueloop.measure.standardized import Standard, corrections, holds_row, in_groups, over_channels, standard
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, ModuleCall, OperationCall, ProgramStart, RunEnd, tensors_in
from trueloop.torch_private.modules import ConvNd

__all__ = ["StandardizedDataObserver"]

LEAST_ROWS: Final = 100  # of a table
LEAST_BATCH: Final = 8  # rows
MOST_ELEMENTS: Final = 2**23  # of a table
LARGEST: Final = 400  # rows: in larger batches, n and n - 1 do not differ enough
MOST_BATCH: Final = 2**18
TRAINED: Final = 12  # training batches of a model that are looked at
EVALUATED: Final = 64
MOST_LOADERS: Final = 4
_Stored = tuple[weakref.ref[Any], Any]  # a tensor or an array, and the rows of it that are drawn; None: all


@dataclass(slots=True)
class _Model:
    name: str
    table: Standard | None = None
    grouped: bool = False
    alone: int = 0  # training batches that are standardized by themselves
    trained: int = 0
    place: Place | None = None  # of the first evaluating call
    calls: int = 0
    batches: dict[float, tuple[int, bool, bool]] = field(default_factory=dict)
    """Different evaluated batches, in their order: rows, and whether they are standardized, with n and with n - 1."""


class StandardizedDataObserver(Observer):
    emits = (TableStandardized, ChannelsPooled)

    def prepare(self) -> None:
        self._models: dict[int, _Model] = {}
        self._by_loader: dict[int, list[_Stored]] = {}
        self._drawn: list[_Stored] = []  # what the latest batch may have been read from
        self._cuts: dict[int, tuple[weakref.ref[Tensor], weakref.ref[Tensor]]] = {}
        """Tensors that were cut out of stored ones, in recorded training steps."""
        self._recording = False

    # -- stored tables --

    def loader_started(self, start: LoaderStart) -> None:
        number, dataset = self.bus.ordinal("loader", start.loader), start.loader.dataset
        if number in self._by_loader or len(self._by_loader) >= MOST_LOADERS or isinstance(dataset, IterableDataset):
            return
        self._by_loader[number] = _stored(dataset)

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._drawn = [] if drawn.number is None else self._by_loader.get(drawn.number, [])

    def program_started(self, start: ProgramStart) -> None:
        self._recording = start.phase == "training"
        self._cuts.clear()

    def program_ended(self, _: ProgramStart) -> None:
        self._recording = False
        self._cuts.clear()

    def operation_ended(self, call: OperationCall) -> None:
        if not self._recording or call.name not in PICKS or not call.args or self.bus.call is not None:
            return
        stored, cut = call.args[0], call.output
        if is_plain(stored) and isinstance(cut, Tensor) and len(self._cuts) < 64 and _is_table(stored):
            self._cuts[id(cut)] = weakref.ref(cut), weakref.ref(stored)

    # -- batches --

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        training, model = call.grad and call.training, self._models.get(known.number)
        if training and model is not None and model.trained >= TRAINED:
            return
        batch = next((t for t in tensors_in((call.args, call.kwargs)) if is_plain(t)), None)
        if batch is None or not _is_batch(batch):
            return
        if model is None:
            model = self._models[known.number] = _Model(type(call.module).__name__)
        if not training:
            if model.calls < EVALUATED and batch.ndim == 2:
                model.calls += 1
                model.place = model.place or call.place
                key = batch[0].double().sum().item() + batch[-1].double().sum().item()
                model.batches[key] = (len(batch), *corrections(batch))
            return
        if model.table is None:
            self._look_up(known.number, model, call, batch)
        if batch.ndim == 2:
            whole = model.table is not None and model.table.rows == len(batch)
            model.alone += not whole and any(corrections(batch))
        model.trained += 1

    def _look_up(self, number: int, model: _Model, call: ModuleCall, batch: Tensor) -> None:
        """The table that a training batch comes from."""
        cut = self._cuts.get(id(batch))
        sources = self._drawn if cut is None or cut[0]() is not batch else [(cut[1], None)]
        for reference, rows in sources:
            stored = reference()
            table = torch.from_numpy(stored) if isinstance(stored, numpy.ndarray) else stored
            if table is None or not holds_row(table, batch[0]):
                continue
            table = table if rows is None else table[torch.as_tensor(rows)]
            if table.ndim == 2 and table.shape[1:] == batch.shape[1:] and len(table) >= LEAST_ROWS:
                model.table, model.grouped = standard(table), in_groups(table)
            elif (axis := _channel_axis(call.module, table, batch)) is not None:
                model.table = standard(table.flatten(1))
                found = over_channels(table, axis)
                if found is not None:
                    self.emit(ChannelsPooled, call.place, number, model.name, len(table), *found)
            return

    def run_ended(self, end: RunEnd) -> None:
        for number, model in self._models.items():
            table, batches = model.table, [each for each in model.batches.values() if each[0] >= LEAST_BATCH]
            if table is None or not table.scaled or not batches:
                continue
            own = not model.alone and not model.grouped and table.centered and _are_own(table, batches)
            self.emit(TableStandardized, model.place, number, model.name, table.rows, table.columns, table.centered,
                      table.away, table.offset, len(batches), own, max(rows for rows, _, _ in batches))  # fmt: skip


def _are_own(table: Standard, batches: list[tuple[int, bool, bool]]) -> bool:
    """Each batch is standardized by itself, and the table is not a union of groups that are.

    Groups that are standardized with n - 1 have together a deviation below 1. With n, nothing shows it: then the
    batches must be cut by number, with a smaller last one."""
    if max(rows for rows, _, _ in batches) > LARGEST:
        return False
    if all(unbiased for _, _, unbiased in batches):
        return table.unbiased
    sizes = [rows for rows, _, _ in batches]
    return all(biased for _, biased, _ in batches) and sizes[-1] < min(sizes[:-1]) == max(sizes[:-1])


def _is_table(stored: Any) -> bool:
    plain = is_plain(stored) and is_readable(stored) and stored.is_cpu and stored.is_floating_point()
    return plain and stored.ndim in (2, 3) and not stored.requires_grad and stored.numel() <= MOST_ELEMENTS


def _is_batch(batch: Tensor) -> bool:
    few = is_readable(batch) and batch.is_cpu and batch.is_floating_point() and batch.numel() <= MOST_BATCH
    return few and batch.ndim in (2, 3) and len(batch) >= LEAST_BATCH and not batch.requires_grad


def _stored(dataset: Any) -> list[_Stored]:
    rows: Any = None
    while type(dataset) is Subset:
        indices = numpy.asarray(dataset.indices)
        rows, dataset = indices if rows is None else indices[rows], dataset.dataset
    values: Any = dataset.tensors if type(dataset) is TensorDataset else getattr(dataset, "__dict__", {}).values()
    found = [v for v in values if _is_table(v) or _is_array(v)]
    try:
        length = len(dataset)
    except Exception:  # noqa: BLE001 - the user's own `__len__`: without a length nothing is known about its rows
        return []
    return [(weakref.ref(value), rows) for value in found if len(value) == length]


def _is_array(value: Any) -> bool:
    return type(value) is numpy.ndarray and value.dtype in ("f4", "f8") and value.ndim in (2, 3) and (
        0 < value.size <= MOST_ELEMENTS and value.flags.writeable
    )  # fmt: skip


def _channel_axis(module: nn.Module, table: Tensor, batch: Tensor) -> int | None:
    """The axis of the table that holds the channels of the model's first layer."""
    if table.ndim != 3 or batch.ndim != 3 or table.shape[1] == table.shape[2]:
        return None
    layers = (part for part in module.modules() if isinstance(part, (nn.Linear, nn.RNNBase, ConvNd)))
    first = next(layers, None)
    if first is None:
        return None
    axis = 1 if isinstance(first, ConvNd) else 2
    turned = table.shape[1:] != batch.shape[1:]
    return (3 - axis if turned else axis) if sorted(table.shape[1:]) == sorted(batch.shape[1:]) else None
