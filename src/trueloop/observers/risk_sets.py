"""Which samples share a partial likelihood: the ones still at risk, the ones that have already left, or any others?

The gradient of a Cox loss tells it, however the loss is spelled. For each sample, it holds the sum of one over the
risk of all sets that the sample is in. Along the time of the samples that sum grows where sets hold those who are
still there, and falls where they hold those who have left. The loss is differentiated once more, with respect to the
model's output only, in at most a few recorded steps.

The gradient also tells whose event is counted: if the scores were sorted by time and the flags were not, it is that of
a partial likelihood in which the flag of a batch's row belongs to the sample of this rank in time.
"""

from typing import Final

import torch
from torch import Tensor
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from trueloop.event import EventFlagsMoved, Place, RiskSetsByRow, RiskSetsTested
from trueloop.measure.risk import direction_of, only_one_sorted
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BatchDrawn, LoaderStart, ModuleCall, OperationCall, ProgramStart
from trueloop.taps.variables import users_variables

__all__ = ["RiskSetsObserver"]

ROWS: Final = 12
MOST_ROWS: Final = 4096
VECTORS: Final = 24  # tensors with one number for each sample that are tried
TESTS: Final = 4
_SUMS: Final = frozenset({"logcumsumexp", "cumsum", "logsumexp", "log"})
_ORDERS: Final = ("argsort", "sort")
_SHUFFLING: Final = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class RiskSetsObserver(Observer):
    emits = (EventFlagsMoved, RiskSetsByRow, RiskSetsTested)
    rarely = ("module_call_ended", "backward_started")

    def prepare(self) -> None:
        self._tests = 0
        self._shuffling: set[int] = set()  # loaders that draw in a random order
        self._shuffled = False  # the latest batch is from one of them
        self._clear(False)

    def _clear(self, on: bool) -> None:
        self._on = on
        self._output: Tensor | None = None  # of at most a few thousand numbers, until the backward of the same step
        self._rows = 0
        self._vectors: dict[tuple[float, ...], Tensor] = {}  # small copies, by their first numbers
        self._summed: Place | None = None
        self._ordered: Place | None = None
        self._times: list[Tensor] = []  # what was sorted since the model's output

    def program_started(self, start: ProgramStart) -> None:
        self._clear(start.phase == "training" and self._tests < TESTS)

    def program_ended(self, _: ProgramStart) -> None:
        self._clear(False)

    def loader_started(self, start: LoaderStart) -> None:
        if isinstance(getattr(start.loader, "sampler", None), _SHUFFLING):
            self._shuffling.add(self.bus.ordinal("loader", start.loader))

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._shuffled = drawn.number in self._shuffling

    def module_call_ended(self, call: ModuleCall) -> None:
        output = next(tensors_in(call.output, 1), None)
        if not self._on or call.failed or not call.grad or output is None or not output.requires_grad:
            return
        if ROWS <= output.numel() <= MOST_ROWS and output.shape[:1] == (output.numel(),) and output.is_cpu:
            self._output, self._rows = output, output.numel()
            self._summed = self._ordered = None
            self._times = []

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or self.bus.call is not None:
            return
        if call.name in _SUMS and self._output is not None:
            self._summed = self._summed or call.place
        elif call.name in _ORDERS:
            self._ordered = call.place
        for tensor in tensors_in((call.args, call.kwargs), 4):
            kept = self._keep(tensor)
            if call.name in _ORDERS and kept is not None:
                self._times.append(kept)

    def _keep(self, tensor: Tensor) -> Tensor | None:
        size, full = tensor.numel(), len(self._vectors) >= VECTORS
        if full or not ROWS <= size <= MOST_ROWS or tensor.requires_grad or tensor.is_complex():
            return None
        if tensor.shape[:1] != (size,) or not (is_plain(tensor) and is_readable(tensor) and tensor.is_cpu):
            return None
        vector = tensor.detach().flatten().double().clone()
        return self._vectors.setdefault((size, *vector[:8].tolist(), float(vector.sum())), vector)

    def backward_started(self, call: BackwardCall) -> None:
        output, self._output = self._output, None
        if not self._on or self._summed is None or output is None or len(call.tensors) != 1 or call.create_graph:
            return
        loss = call.tensors[0]
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            return
        for variables in users_variables(1, 2):
            for value in tensors_in(list(variables.values()), 64):
                self._keep(value)
        vectors = [vector for vector in self._vectors.values() if vector.numel() == self._rows]
        flags = [v for v in vectors if bool(((v == 0) | (v == 1)).all()) and 0 < float(v.mean()) < 1]
        if not flags or len(vectors) == len(flags):
            return
        self._tests += 1
        found = torch.autograd.grad(loss, output, retain_graph=True, allow_unused=True)
        gradients = next((gradient.flatten().double() for gradient in found if gradient is not None), None)
        if gradients is None:
            return
        scores = output.detach().flatten().double()
        for event in flags:
            for time in vectors:
                later = direction_of(scores, gradients, event, time)
                if later is not None:
                    place = self._ordered or self._summed
                    self.emit(RiskSetsTested, place, self._rows, int(event.sum()), later)
                    return
        if not self._test_flags(scores, gradients, flags):
            self._test_rows(scores, gradients, flags, vectors)

    def _test_flags(self, scores: Tensor, gradients: Tensor, flags: list[Tensor]) -> bool:
        """Were only the scores, or only the flags, put in the order of a time that this step sorted?"""
        times = [time for time in self._times if time.numel() == self._rows]
        for event in flags:
            for time in times:
                found = only_one_sorted(scores, gradients, event, time)
                if found is not None:
                    moved, part = found
                    self.emit(EventFlagsMoved, self._ordered, self._rows, int(event.sum()), moved, part)
                    return True
        return False

    def _test_rows(self, scores: Tensor, gradients: Tensor, flags: list[Tensor], vectors: list[Tensor]) -> None:
        """Do the sets follow the order of the rows, which is the order of no column?"""
        others = [vector for vector in vectors if len(torch.unique(vector)) >= ROWS]
        rows = torch.arange(self._rows, dtype=torch.double)
        if any(map(_is_sorted, others)):
            return
        indexed = any(_is_index(vector) for vector in others)
        for event in flags:
            if direction_of(scores, gradients, event, rows) is not None:
                unsorted = sum(not _is_index(vector) for vector in others)
                self.emit(
                    RiskSetsByRow, self._summed, self._rows, int(event.sum()), indexed or self._shuffled, unsorted
                )
                return


def _is_sorted(vector: Tensor) -> bool:
    steps = vector.diff()
    return bool((steps >= 0).all() or (steps <= 0).all())


def _is_index(vector: Tensor) -> bool:
    """Different whole numbers, the numbers of rows."""
    whole = bool((vector == vector.round()).all() and (vector >= 0).all())
    return whole and len(torch.unique(vector)) == len(vector)
