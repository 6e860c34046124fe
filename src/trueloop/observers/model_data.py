"""What enters models, and the targets of their losses, in training and in evaluation.

The inputs of a model are its samples, whether a loader, an index or a list made them. Rows are sampled from the first
calls of each phase and from some later ones; only numbers are kept.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeGuard

import torch
from torch import Tensor, nn

from trueloop.event import InputsSummarized, Labels, Place, TargetsSummarized
from trueloop.measure.columns import as_table, column_facts
from trueloop.measure.probe import differs_by_call, probe
from trueloop.measure.rows import digests
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, OperationCall, RunEnd, tensors_in

__all__ = ["ModelDataObserver"]

Phase = Literal["training", "evaluation"]

FIRST_CALLS: Final = 32  # of a model in a phase, sampled all
EVERY: Final = 16  # later calls
MOST_CALLS: Final = 2000
ROWS: Final = 256  # sampled from a call
MOST_ROWS: Final = 2048  # of a phase
MOST_ELEMENTS: Final = 2**21  # kept of a phase
ON_DEVICE: Final = 6  # calls on a device that are sampled: each makes the host wait
MOST_TARGETS: Final = 100_000
LEAST_PAIRS: Final = 200  # rows with targets for a probe
WIDEST: Final = 1024  # numbers in a row for a probe
_EQUALS: Final = ("eq", "__eq__", "ne", "__ne__")


@dataclass(slots=True)
class _Input:
    """One tensor argument of a model in one phase."""

    place: Place | None
    shape: tuple[int, ...]
    table: int
    arguments: int
    rows: list[Tensor] = field(default_factory=list)
    targets: list[Tensor | None] = field(default_factory=list)
    sampled: int = 0
    elements: int = 0


@dataclass(slots=True)
class _Targets:
    place: Place | None
    function: str
    values: dict[Phase, list[Tensor]] = field(default_factory=lambda: {"training": [], "evaluation": []})
    counts: dict[Phase, int] = field(default_factory=lambda: {"training": 0, "evaluation": 0})
    calls: dict[Phase, int] = field(default_factory=lambda: {"training": 0, "evaluation": 0})
    read: int = 0  # training calls whose targets were read


class ModelDataObserver(Observer):
    emits = (InputsSummarized, TargetsSummarized)

    def prepare(self) -> None:
        self._calls: Counter[tuple[int, Phase]] = Counter()
        self._inputs: dict[tuple[int, int, Phase], _Input] = {}
        self._targets: dict[tuple[int, Place | None], _Targets] = {}
        self._pending: list[tuple[_Input, int, Tensor]] = []
        """Inputs of the latest call that wait for their targets: the entry, the batch size, the sampled rows."""
        self._latest: tuple[int, Phase] | None = None
        self._compared: dict[int, list[Tensor]] = {}
        """Labels that the predictions of each model were compared with, in recorded evaluations."""
        self._made: set[int] = set()
        """Identities of tensors that were computed since the latest call, in recorded evaluations."""

    # -- inputs --

    @torch.no_grad()
    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        phase: Phase = "training" if call.grad and call.training else "evaluation"
        number = self._calls[known.number, phase]
        self._calls[known.number, phase] += 1
        self._pending, self._latest = [], (known.number, phase)
        self._made.clear()
        if number >= MOST_CALLS or (number >= FIRST_CALLS and number % EVERY):
            return
        tensors = [t for t in (*tensors_in(call.args), *tensors_in(call.kwargs)) if _is_batch(t)]
        if not tensors or (not tensors[0].is_cpu and number >= ON_DEVICE):
            return
        arguments = sum(1 for _ in (*tensors_in(call.args), *tensors_in(call.kwargs)))
        for position, tensor in enumerate(tensors[:3]):
            self._sample(known.number, position, phase, call, tensor, arguments)

    def _sample(
        self, model: int, position: int, phase: Phase, call: ModuleCall, tensor: Tensor, arguments: int
    ) -> None:
        key = (model, position, phase)
        entry = self._inputs.get(key)
        if entry is None:
            entry = self._inputs[key] = _Input(call.place, tuple(tensor.shape), _largest_table(call), arguments)
        if entry.sampled >= MOST_ROWS or entry.elements >= MOST_ELEMENTS or tensor.shape[1:] != entry.shape[1:]:
            return
        rows = evenly_spaced(tensor.detach(), ROWS)
        if rows[0].numel() > MOST_ELEMENTS // ROWS:
            return
        kept = rows.cpu().clone()
        entry.rows.append(kept)
        entry.targets.append(None)
        entry.sampled += len(kept)
        entry.elements += kept.numel()
        self._pending.append((entry, tensor.shape[0], kept))

    # -- targets --

    @torch.no_grad()
    def loss_called(self, loss: LossCall) -> None:
        if self._latest is None or not is_plain(loss.target) or not is_readable(loss.target):
            return
        model, phase = self._latest
        targets = self._targets.setdefault((model, loss.place), _Targets(loss.place, loss.function))
        targets.calls[phase] += 1
        if not loss.target.is_cpu and targets.calls[phase] > ON_DEVICE:
            return
        if targets.counts[phase] < MOST_TARGETS and not loss.target.requires_grad:
            values = evenly_spaced(loss.target.detach().reshape(-1), 4096).cpu().clone()
            ignored = loss.options.get("ignore_index", -100)
            values = values[values != ignored] if not values.dtype.is_floating_point else values
            targets.values[phase].append(values)
            targets.counts[phase] += len(values)
            targets.read += phase == "training"
        for entry, size, rows in self._pending:
            if loss.target.numel() == size and entry.rows and entry.rows[-1] is rows:
                entry.targets[-1] = evenly_spaced(loss.target.detach().reshape(-1), ROWS).cpu().clone()
        self._pending = []

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        """In recorded evaluations: the labels that predictions are compared with."""
        if not self._pending or self._latest is None or self._latest[1] != "evaluation" or self.bus.call is not None:
            return
        if call.name in _EQUALS and len(call.args) == 2 and all(isinstance(arg, Tensor) for arg in call.args):
            labels = [arg for arg in call.args if id(arg) not in self._made]
            for entry, size, rows in self._pending:
                if len(labels) == 1 and labels[0].numel() == size and entry.rows and entry.rows[-1] is rows:
                    known = evenly_spaced(labels[0].detach().reshape(-1), ROWS).cpu().clone()
                    entry.targets[-1] = known
                    self._compared.setdefault(self._latest[0], []).append(known)
        elif len(self._made) < 256:
            self._made.update(id(tensor) for tensor in tensors_in(call.output))

    # -- facts --

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        for (model, position, phase), entry in self._inputs.items():
            if entry.rows:
                self._summarize(model, position, phase, entry)
        for (model, place), targets in self._targets.items():
            evaluated = targets.values["evaluation"] or self._compared.get(model, [])
            labels = [_labels(targets.values["training"]), _labels(evaluated)]
            if any(labels):
                counts = targets.calls
                self.emit(TargetsSummarized, place, model, targets.function, labels[0], labels[1],
                          counts["training"], targets.read)  # fmt: skip

    def _summarize(self, model: int, position: int, phase: Phase, entry: _Input) -> None:
        rows = torch.cat(entry.rows)
        name = self.objects.models[model].name
        same = (rows.reshape(len(rows), -1) == rows[:1].reshape(1, -1)).all(1).double().mean().item()
        facts: dict[str, Any] = {}
        columns: tuple[Any, ...] = ()
        kept = _first_of_each(rows)
        if rows.dtype.is_floating_point:
            table, kind = as_table(rows[kept])
            targets, classes = _paired(entry) if len(table) == len(kept) else (None, False)
            targets = None if targets is None else targets[kept]
            if targets is not None and classes:
                counts = torch.unique(targets, return_counts=True)[1]
                facts["majority"], facts["classes"] = counts.max().item() / len(targets), len(counts)
            columns = column_facts(table, targets, classes)
            facts |= _probed(entry)
        else:
            kind = "tokens"
            facts["most_common"], facts["token_count"] = _most_common(rows)
        self.emit(
            InputsSummarized, entry.place, model, name, position, phase, kind, entry.shape,  # type: ignore[arg-type]
            self._calls[model, phase], len(rows), columns, same,
            distinct_rows=len(kept), table=entry.table, arguments=entry.arguments, **facts,
        )  # fmt: skip


def _is_batch(tensor: Any) -> TypeGuard[Tensor]:
    usable = is_plain(tensor) and is_readable(tensor) and tensor.ndim >= 1 and not tensor.requires_grad
    return usable and tensor.shape[0] >= 1 and tensor.ndim >= 2


def _largest_table(call: ModuleCall) -> int:
    return max((m.num_embeddings for m in call.module.modules() if isinstance(m, nn.Embedding)), default=0)


def _first_of_each(rows: Tensor) -> list[int]:
    """The rows without repetitions: an epoch that comes again adds nothing."""
    return list({digest: index for index, digest in reversed(list(enumerate(digests(rows))))}.values())[::-1]


def _probed(entry: _Input) -> dict[str, Any]:
    """How well a probe predicts the targets from the rows, where both are known."""
    pairs = [(r, t) for r, t in zip(entry.rows, entry.targets, strict=True) if t is not None and len(t) == len(r)]
    if not pairs or pairs[0][0][0].numel() > WIDEST:
        return {}
    rows, targets = torch.cat([r for r, _ in pairs]), torch.cat([t.double() for _, t in pairs])
    kept = _first_of_each(rows)
    rows, targets = rows[kept], targets[kept]
    distinct = len(torch.unique(targets))
    if len(rows) < LEAST_PAIRS or distinct < 2 or not bool(rows.isfinite().all()):
        return {}
    classes = bool((targets == targets.round()).all()) and distinct <= 50
    found = probe(rows, targets, classes)
    if found is None or (found.score < found.chance + 0.1 and differs_by_call(pairs, classes)):
        return {}
    return {"probed": found.rows, "probe": found.score, "chance": found.chance}


def _paired(entry: _Input) -> tuple[Tensor | None, bool]:
    """The targets of all sampled rows in double precision, and whether they are classes; None if some are missing."""
    if not entry.targets or any(t is None or len(t) != len(r) for t, r in zip(entry.targets, entry.rows, strict=True)):
        return None, False
    targets = torch.cat([t.double() for t in entry.targets if t is not None])
    distinct = len(torch.unique(targets))
    classes = bool((targets == targets.round()).all()) and 2 <= distinct <= 50
    return targets, classes


def _most_common(rows: Tensor) -> tuple[tuple[int, float] | None, int]:
    """The most frequent token, not counting the run of one token at the end (or the start) of a row: padding."""
    if rows.ndim != 2 or rows.shape[1] < 4:
        return None, len(torch.unique(rows))
    flat = rows.long()
    last = flat[:, -1:]
    trailing = (flat == last).flip(1).cumprod(1).flip(1).bool()
    leading = (flat == flat[:, :1]).cumprod(1).bool()
    inside = ~(trailing if trailing.sum() >= leading.sum() else leading)
    kept = flat[inside]
    if kept.numel() < 64:
        return None, len(torch.unique(flat))
    values, counts = torch.unique(kept, return_counts=True)
    best = int(counts.argmax())
    return (int(values[best]), counts[best].item() / kept.numel()), len(torch.unique(flat))


def _labels(values: list[Tensor]) -> Labels | None:
    if not values or not sum(len(v) for v in values):
        return None
    joined = torch.cat([v.double() for v in values])
    joined = joined[joined.isfinite()]
    if not len(joined):
        return None
    distinct, counts = torch.unique(joined, return_counts=True)
    classes: tuple[tuple[float, int], ...] = ()
    if len(distinct) <= 64 and bool((distinct == distinct.round()).all()):
        order = counts.argsort(descending=True)
        classes = tuple((float(distinct[i]), int(counts[i])) for i in order)
    return Labels(len(joined), classes, len(distinct), joined.mean().item(), joined.std(correction=0).item())
