"""Evaluated rows, looked up among the training rows, however the batches were cut."""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import Place, RowsCompared
from trueloop.measure.folds import Folds
from trueloop.measure.parameters import fingerprint
from trueloop.measure.rows import as_features, digests, later_windows, stretches
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, on_host
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, RunEnd, tensors_in
from trueloop.taps.names import names_of_argument
from trueloop.usercode.names import says_held_out

__all__ = ["EvaluatedRowsObserver"]

MOST_DIGESTS: Final = 20_000  # rows remembered of each side
MOST_ELEMENTS: Final = 2**25  # read of each side
MOST_STRETCHES: Final = 200_000
WINDOW_ROWS: Final = 256  # of a call
FEW_LEVELS: Final = 400  # distinct numbers: with fewer, rows are equal by chance
PIXEL_LEVELS: Final = 64  # distinct numbers: with fewer, rows are not windows of a series
LEAST_FEATURES: Final = 4  # numbers in a row: shorter rows are equal by chance
FEW_COLUMNS: Final = 32
TABULAR_ROWS: Final = 2048
COARSE: Final = 0.5  # distinct numbers of a column to distinct rows
ON_DEVICE: Final = 6  # calls on a device that are read: each makes the host wait
WINDOW_SAMPLE: Final = 64  # evaluated rows that are compared with training rows by value
MOST_KEPT: Final = 2**17  # numbers of training rows that are kept for that
SPARSE: Final = 8  # calls from one look to the next, later in the run
REPEATED: Final = 7  # the same, where all rows come again; odd, because batches often come in turns
RESETS: Final = 512  # times that a training begins and the weights are compared with the latest evaluation's
NAMED_CALLS: Final = 256  # evaluating calls whose arguments are looked up in the user's variables
ALTERNATING: Final = 0.8
MIXED: Final = 0.02


@dataclass(slots=True)
class _Trained:
    """The rows that a model was trained on."""

    place: Place | None
    digests: set[int] = field(default_factory=set)
    once: set[int] = field(default_factory=set)  # of them: read once so far
    inner: list[Tensor] = field(default_factory=list)
    """Digests of stretches of numbers that do not end their row: as tensors, because they are many."""
    inner_is_new: bool = False  # since they were last sorted
    stretches: int = 0
    levels: set[float] = field(default_factory=set)  # distinct numbers, up to a limit
    calls: int = 0
    looks: int = 0  # calls whose rows were read
    seen: int = 0
    elements: int = 0
    twins: int = 0  # rows that equal another one of their batch
    tabular: list[Tensor] = field(default_factory=list)  # some rows, each once, of tables with few columns
    sample: list[Tensor] = field(default_factory=list)  # of rows that may be windows of a series
    kept: int = 0  # numbers in it
    folds: Folds = field(default_factory=Folds)
    weights: float | None = None  # the sum of some weights at the latest evaluation; None: trained since
    begun: int = 0  # times that training began again
    dense_until: int = 0  # calls that are all read: an epoch, after each evaluation
    left_out: int = 0  # calls that were not read, because the epochs repeat

    def leaves_out(self) -> bool:
        """Is the next training call not read? Every row was read twice, so the epochs repeat: a new row, or an
        evaluation, ends that."""
        known = self.looks > 1 and not self.once and self.weights is None
        if not known or self.calls < self.dense_until or (self.calls + 1) % REPEATED == 0:
            return False
        self.calls += 1
        self.left_out += 1
        return True

    def holds(self, pieces: Tensor) -> list[bool]:
        """Which pieces are inside a training window. Sorted once after each training: an evaluation asks many times."""
        if self.inner_is_new:
            self.inner, self.inner_is_new = [torch.cat(self.inner).sort().values], False
        known = self.inner[0]
        at = torch.searchsorted(known, pieces.contiguous()).clamp_(max=len(known) - 1)
        found: list[bool] = (known[at] == pieces).tolist()
        return found

    def expected(self) -> float:
        """Share of other rows that would be among these by chance: none where numbers are continuous."""
        if not self.twins or (len(self.levels) > FEW_LEVELS and not self.repeats_in_every_column()):
            return 0.0
        return min(1.0, 2 * self.twins / self.seen * len(self.digests) / (self.seen / (self.calls - self.left_out)))

    def repeats_in_every_column(self) -> bool:
        """Whether different rows share the numbers of every column: of days, hours and shops, two rows are equal by
        chance. A copied row of measurements shares a number with its copies only."""
        if not self.tabular:
            return False
        rows = torch.cat(self.tabular)
        return all(len(torch.unique(column)) < COARSE * len(rows) for column in rows.T)

    def coverage(self) -> float:
        """Share of the training set that is known, estimated from the rows that were read only once (Good and Turing).

        Where rows are drawn at random, or some calls are not read, a row that is unknown may be a training row too.
        An epoch in which no row comes twice is taken for all of it, if every call was read.
        """
        if self.seen == len(self.digests):
            return float(self.looks == self.calls)
        return 1 - len(self.once) / self.seen


@dataclass(slots=True)
class _Evaluated:
    """The rows of one evaluating line."""

    digests: set[int] = field(default_factory=set)
    early: set[int] = field(default_factory=set)  # not trained on when they came, by a model in training
    mixed: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)  # rows of batches that are all trained on and named validation or test
    windows: dict[int, bool] = field(default_factory=dict)  # row: its end was trained on, when it came last
    ends: set[float] = field(default_factory=set)  # distinct numbers at the ends of windows
    batches: set[int] = field(default_factory=set)
    calls: int = 0
    looks: int = 0  # calls whose rows were read
    seen: int = 0
    elements: int = 0
    changes: int = 0  # looks with training between them and the look before
    trainings: int = 0  # at the latest call
    batch: int = 0
    tensor: weakref.ref[Tensor] | None = None
    output: int | None = None
    run: int = 0
    in_a_row: int = 0
    sample: Tensor | None = None
    folded: int = 0  # rows of a call that an earlier fold was trained on


class EvaluatedRowsObserver(Observer):
    emits = (RowsCompared,)

    def prepare(self) -> None:
        self._trained: dict[int, _Trained] = {}
        self._evaluated: dict[tuple[int, Place | None], _Evaluated] = {}
        self._first: dict[Place | None, dict[int, int]] = {}
        """At each evaluating line: the model that a row was evaluated with first."""
        self._repeated: _Evaluated | None = None
        """The line whose call is running, if its batch equals the one before."""

    def watching_resumed(self, nothing: None) -> None:
        """There were calls whose rows were not read."""
        for trained in self._trained.values():
            trained.calls += 1
            trained.left_out += 1

    def module_call_started(self, call: ModuleCall) -> None:
        self._repeated = None
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        training = call.grad and call.training
        trained = self._trained.get(known.number)
        if training and trained is not None and trained.leaves_out():
            return
        tensors = _aligned(call)
        if not tensors or tensors[0].numel() < LEAST_FEATURES * len(tensors[0]):
            return
        if training:
            if trained is None:
                trained = self._trained[known.number] = _Trained(call.place)
            trained.calls += 1
            if trained.weights is not None and trained.begun < RESETS:
                trained.begun += 1
                if trained.weights != _weights(call.module):
                    trained.folds = Folds()
            if trained.weights is not None:
                trained.dense_until = trained.calls + len(trained.digests) // max(1, tensors[0].shape[0]) + 1
            trained.weights = None
            if _wants(trained, tensors):
                _train(trained, [tensor.detach().cpu() for tensor in tensors])
        elif (known.number, call.place) in self._evaluated or len(self._evaluated) < 64:
            line = self._evaluated.get((known.number, call.place))
            if line is None:
                line = self._evaluated[known.number, call.place] = _Evaluated()
            line.calls += 1
            if _wants(line, tensors):
                rows = self._evaluate(line, self._trained.get(known.number), tensors, call)
                first = self._first.setdefault(call.place, {})
                # Rows of a pool, which an earlier model chose or labeled: trained on by this one, and asked for again.
                line.early.update(row for row in rows if first.setdefault(row, known.number) != known.number)

    def _evaluate(
        self, line: _Evaluated, trained: _Trained | None, inputs: list[Tensor], call: ModuleCall
    ) -> list[int]:
        original, tensors = inputs[0], [tensor.detach().cpu() for tensor in inputs]
        rows = _rows(tensors)
        batch = hash(tuple(rows))
        trainings = 0 if trained is None else trained.calls
        line.looks += 1
        line.changes += line.looks > 1 and trainings != line.trainings
        again = batch == line.batch and trainings == line.trainings and not call.training and len(set(rows)) > 1
        if again and line.tensor is not None and line.tensor() is not original:
            self._repeated = line
        else:
            line.run, line.output = 1, None
        line.batch, line.trainings, line.tensor = batch, trainings, weakref.ref(original)
        line.batches.add(batch)
        line.digests.update(rows)
        line.seen += len(rows)
        line.elements += tensors[0].numel()
        if trained is None:
            return rows
        if trained.weights is None and trained.begun < RESETS:
            trained.weights = _weights(call.module)
        line.folded = max(line.folded, trained.folds.evaluate(rows, tensors[0]))
        if line.sample is None and len(tensors) == 1:
            line.sample = _series(tensors[0], WINDOW_SAMPLE)
        shared = {row for row in rows if row in trained.digests}
        line.early.update(row for row in rows if row not in shared)
        if MIXED * len(rows) < sum(row in shared for row in rows) < (1 - MIXED) * len(rows):
            line.mixed |= shared
        elif len(shared) == len(set(rows)) > 1 and line.calls <= NAMED_CALLS and _is_named(original):
            line.named |= shared
        if trained.stretches and _is_series(tensors[0]):
            pieces, ends = stretches(tensors[0][:WINDOW_ROWS])
            last = pieces[:, -1]
            for row, piece, known in zip(rows, last.tolist(), trained.holds(last), strict=False):
                if piece:
                    line.windows[row] = known
            line.ends.update(ends.reshape(-1).tolist())
        return rows

    def module_call_ended(self, call: ModuleCall) -> None:
        """Equal batches with different outputs do not count: weights were pruned, sampled or replaced."""
        line = self._repeated
        if line is None or call.failed:
            return
        outputs = [t for t in tensors_in(call.output) if is_plain(t) and is_readable(t) and t.ndim]
        output = hash(tuple(digests(on_host(evenly_spaced(outputs[0], 64))))) if outputs else None
        line.run = line.run + 1 if output is not None and line.output in (None, output) else 1
        line.output = output
        line.in_a_row = max(line.in_a_row, line.run)

    def run_ended(self, end: RunEnd) -> None:
        for (model, place), line in self._evaluated.items():
            trained = self._trained.get(model)
            if trained is None or not line.digests:
                continue
            shared = line.digests & trained.digests
            windows = {row: known for row, known in line.windows.items() if row not in trained.digests}
            fine = len(trained.levels) >= min(FEW_LEVELS, len(trained.digests) / 2) and len(line.ends) >= min(
                FEW_LEVELS, len(windows) / 2
            )
            late = _late_windows(line, trained) if fine and not sum(windows.values()) else (0, 0)
            many = line.looks >= 8 and len(line.batches) >= ALTERNATING * line.looks
            self.emit(
                RowsCompared,
                place,
                model,
                len(line.digests),
                len(shared),
                len(trained.digests),
                trained.expected() * len(line.digests),
                len(windows) if fine else 0,
                sum(windows.values()) if fine else 0,
                line.looks,
                len(line.batches),
                line.in_a_row,
                len(line.mixed - line.early),
                len(line.named - line.early),
                many and line.changes >= ALTERNATING * (line.looks - 1),
                trained.place,
                *late,
                max(line.folded, trained.folds.rescaled()),
                trained.coverage(),
            )


def _aligned(call: ModuleCall) -> list[Tensor]:
    """The tensors that a model is called with, if each has the samples in its first dimension; the first one has rows.

    Nodes of a graph, hidden states and learned inputs do not count.
    """
    tensors = [*tensors_in(call.args), *tensors_in(call.kwargs)]
    if not tensors or any(not is_plain(t) or not is_readable(t) or t.requires_grad or not t.ndim for t in tensors):
        return []
    if len({t.shape[0] for t in tensors}) > 1:
        return []
    return sorted(tensors, key=lambda t: t.ndim < 2) if any(t.ndim > 1 for t in tensors) else []


def _wants(side: _Trained | _Evaluated, tensors: list[Tensor]) -> bool:
    on_device = not tensors[0].is_cpu and side.calls > ON_DEVICE
    few = side.seen < MOST_DIGESTS or (side.seen < 4 * MOST_DIGESTS and side.calls % SPARSE == 0)
    return few and not on_device and side.elements < MOST_ELEMENTS


def _weights(module: nn.Module) -> float | None:
    """A sum that changes when the weights are written to."""
    first = next((p for p in module.parameters() if p.ndim > 1), None)
    return None if first is None else fingerprint(first).total


def _rows(tensors: list[Tensor]) -> list[int]:
    if len(tensors) == 1:
        return digests(tensors[0])
    return [hash(parts) for parts in zip(*(digests(t) for t in tensors), strict=True)]


def _train(trained: _Trained, tensors: list[Tensor]) -> None:
    rows = _rows(tensors)
    trained.folds.train(rows, tensors[0])
    trained.looks += 1
    new = []
    for index, row in enumerate(rows):
        if row in trained.digests:
            trained.once.discard(row)
        else:
            trained.digests.add(row)
            trained.once.add(row)
            new.append(index)
    if new and tensors[0].ndim == 2 and tensors[0].shape[1] <= FEW_COLUMNS and len(trained.digests) <= TABULAR_ROWS:
        trained.tabular.append(tensors[0][new])
    trained.seen += len(rows)
    trained.elements += tensors[0].numel()
    trained.twins += sum(count for count in Counter(rows).values() if count > 1)
    if not tensors[0].dtype.is_floating_point:
        return
    if len(trained.levels) <= FEW_LEVELS:
        trained.levels.update(tensors[0].detach().reshape(-1)[:2048].tolist())
    if trained.kept < MOST_KEPT and (sample := _series(tensors[0], WINDOW_ROWS)) is not None:
        sample = as_features(sample)
        if not trained.sample or sample.shape[1:] == trained.sample[0].shape[1:]:
            trained.sample.append(sample)
        trained.kept += sample[:, :, 0].numel()
    if _is_series(tensors[0]) and len(trained.levels) > PIXEL_LEVELS and trained.stretches < MOST_STRETCHES:
        pieces = stretches(tensors[0][:WINDOW_ROWS])[0][:, :-1]
        trained.inner.append(pieces[pieces != 0])
        trained.inner_is_new = True
        trained.stretches += len(trained.inner[-1])


def _is_named(tensor: Tensor) -> bool:
    return says_held_out(names_of_argument(tensor))


def _series(tensor: Tensor, most: int) -> Tensor | None:
    """Some rows, if they may be windows of a series."""
    return evenly_spaced(tensor.detach(), most).cpu().clone() if _is_series(tensor) else None


def _late_windows(line: _Evaluated, trained: _Trained) -> tuple[int, int]:
    """Of a sample of the evaluated rows: how many there are, and how many end inside a later training window."""
    if line.sample is None or not trained.sample or trained.seen >= MOST_DIGESTS:
        return 0, 0
    new = [digest not in trained.digests for digest in digests(line.sample)]
    rows, others = as_features(line.sample[new]), torch.cat(trained.sample)
    if len(rows) < len(new) / 2 or rows.shape[1:] != others.shape[1:] or not bool(rows.isfinite().all()):
        return 0, 0  # the score of the training set
    return len(rows), later_windows(rows, others[others.isfinite().flatten(1).all(1)])


def _is_series(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating_point and tensor.ndim in (2, 3))
