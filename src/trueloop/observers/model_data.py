"""What enters models, and the targets of their losses, in training and in evaluation.

The inputs of a model are its samples, whether a loader, an index or a list made them. Rows are sampled from the first
calls of each phase and from some later ones; only numbers are kept.
"""

import weakref
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, Literal, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from trueloop.event import (
    AnswersCompared,
    InputsStretched,
    InputsSummarized,
    Labels,
    OwnTargetColumn,
    Place,
    RowsApart,
    TargetOrderCompared,
    TargetsSummarized,
)
from trueloop.event.operation_names import DIFFERENCES, EQUALITIES, PRODUCTS
from trueloop.measure.answers import Answers, judge
from trueloop.measure.columns import as_table, column_facts, is_noise
from trueloop.measure.exchanged_targets import exchanged
from trueloop.measure.layout import order_in_memory
from trueloop.measure.probe import differs_by_call, probe, transfer
from trueloop.measure.pure_values import pure_column
from trueloop.measure.rows import digests, uniform_batches
from trueloop.measure.rows_apart import rows_apart
from trueloop.measure.stretched import Stretch, indicators, stretch, stretchable
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, OperationCall, RunEnd, tensors_in

__all__ = ["ModelDataObserver"]

Phase = Literal["training", "evaluation"]

FIRST_CALLS: Final = 32  # of a model in a phase, sampled all
EVERY: Final = 16  # later calls
MOST_CALLS: Final = 2000
ROWS: Final = 256  # sampled from a call
WHOLE_SET: Final = 1024  # sampled from a call of an evaluation, which may have all its rows
NARROW: Final = 256  # numbers in a row, for that
MOST_ROWS: Final = 2048  # of a phase
MOST_ELEMENTS: Final = 2**21  # kept of a phase
LATE_ROWS: Final = 32  # of a call
LATE_CALLS: Final = 8  # the latest training calls beyond these: what is trained on may have changed
ON_DEVICE: Final = 6  # calls on a device that are sampled: each makes the host wait
MOST_TARGETS: Final = 100_000
LEAST_NEW: Final = 48  # evaluated rows that were not trained on
TRAINED: Final = 0.3  # of the sampled rows of a batch: with more, it is training data
HALF: Final = 0.5
LEAST_PAIRS: Final = 140  # rows with targets for a probe
WIDEST: Final = 1024  # numbers in a row for a probe
MOST_OUTPUTS: Final = 64  # of a row
LARGE_CALL: Final = 80  # rows of an evaluating call that is a set of its own
MOST_CLASSES: Final = 32
MOST_KINDS: Final = 50  # different whole numbers that are classes; with more they are amounts
LOST: Final = 0.5  # correlation of outputs and targets, in evaluation less than in training
SAME_AGAIN: Final = 0.95  # distinct rows: with more, every row is drawn anew, as by augmentation
_COMPARES: Final = EQUALITIES | DIFFERENCES | PRODUCTS | {"logical_and", "__and__"}


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
    late: deque[Tensor] = field(default_factory=lambda: deque(maxlen=LATE_CALLS))


@dataclass(slots=True)
class _Waiting:
    """A tensor argument of the latest call, until its targets are known."""

    entry: _Input
    size: int  # of the batch
    most: int  # rows that are sampled
    rows: Tensor  # sampled
    kept: bool
    key: tuple[int, int]  # model, position
    memory: tuple[int, int]  # address and size


@dataclass(slots=True)
class _Targets:
    place: Place | None
    function: str
    values: dict[Phase, list[Tensor]] = field(default_factory=lambda: {"training": [], "evaluation": []})
    counts: dict[Phase, int] = field(default_factory=lambda: {"training": 0, "evaluation": 0})
    calls: dict[Phase, int] = field(default_factory=lambda: {"training": 0, "evaluation": 0})
    read: int = 0  # training calls whose targets were read
    ignored: int = -100  # by the latest call

    def counted(self, phase: Phase) -> list[Tensor]:
        return self.without_ignored(self.values[phase])

    def without_ignored(self, labels: list[Tensor]) -> list[Tensor]:
        """Without the class numbers that the loss ignores."""
        return [v if v.dtype.is_floating_point else v[v != self.ignored] for v in labels]


class ModelDataObserver(Observer):
    emits = (
        InputsSummarized, TargetsSummarized, AnswersCompared, TargetOrderCompared, OwnTargetColumn, InputsStretched,
    )  # fmt: skip

    def prepare(self) -> None:
        self._calls: Counter[tuple[int, Phase]] = Counter()
        self._inputs: dict[tuple[int, int, Phase], _Input] = {}
        self._targets: dict[tuple[int, Place | None], _Targets] = {}
        self._pending: list[_Waiting] = []
        self._latest: tuple[int, Phase] | None = None
        self._compared: dict[int, list[Tensor]] = {}
        """Labels that the predictions of each model were compared with, in recorded evaluations."""
        self._derived: dict[int, weakref.ref[Tensor]] = {}
        """The outputs of the latest call and what was computed from them, in recorded evaluations."""
        self._answers: dict[tuple[int, Phase], Answers] = {}
        self._brought_along: set[tuple[int, int]] = set()
        """(model, position) of targets that a batch holds beside the inputs: `model(batch)` with a dict."""

    # -- inputs --

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        phase: Phase = "training" if call.grad and call.training else "evaluation"
        number = self._calls[known.number, phase]
        self._calls[known.number, phase] += 1
        self._pending, self._latest = [], (known.number, phase)
        self._derived.clear()
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
        if tensor.shape[1:] != entry.shape[1:]:
            return
        whole = phase == "evaluation" and tensor[0].numel() <= NARROW and entry.sampled < MOST_ROWS // 2
        most = WHOLE_SET if whole else ROWS
        if self._pending:
            most = self._pending[0].most
        rows = evenly_spaced(tensor.detach(), most)
        if rows[0].numel() > MOST_ELEMENTS // ROWS:
            return
        memory = (tensor.data_ptr(), tensor.numel())
        waiting = _Waiting(entry, tensor.shape[0], most, rows.cpu().clone(), False, (model, position), memory)
        self._pending.append(waiting)
        if entry.sampled < MOST_ROWS and entry.elements < MOST_ELEMENTS:
            waiting.kept = True
            entry.rows.append(waiting.rows)
            entry.targets.append(None)
            entry.sampled += len(waiting.rows)
            entry.elements += waiting.rows.numel()
        elif phase == "training":
            entry.late.append(evenly_spaced(waiting.rows, LATE_ROWS))

    def module_call_ended(self, call: ModuleCall) -> None:
        if not self._pending or self._latest is None or call.failed or self.objects.model(call.module) is None:
            return
        outputs = [t for t in tensors_in(call.output) if is_plain(t) and is_readable(t)]
        self._derived = {id(t): weakref.ref(t) for t in outputs}
        size = self._pending[0].size
        if outputs and outputs[0].ndim and outputs[0].shape[0] == size and outputs[0].numel() <= MOST_OUTPUTS * size:
            sampled = evenly_spaced(outputs[0].detach(), self._pending[0].most)
            kept = self._answers.setdefault(self._latest, Answers())
            numbers = sampled.reshape(len(sampled), -1).cpu().float().clone()
            kept.add(self.bus.step, digests(self._pending[0].rows), numbers)

    # -- targets --

    def loss_called(self, loss: LossCall) -> None:
        if self._latest is None or not is_plain(loss.target) or not is_readable(loss.target):
            return
        model, phase = self._latest
        targets = self._targets.get((model, loss.place))
        if targets is None:
            targets = self._targets[model, loss.place] = _Targets(loss.place, loss.function)
        targets.calls[phase] += 1
        if self._pending:
            memory = (loss.target.data_ptr(), loss.target.numel())
            if any(waiting.memory != memory for waiting in self._pending):
                self._brought_along |= {waiting.key for waiting in self._pending if waiting.memory == memory}
        if not loss.target.is_cpu and targets.calls[phase] > ON_DEVICE:
            return
        if targets.counts[phase] < MOST_TARGETS and not loss.target.requires_grad:
            # One copy at every step, and nothing else: targets to ignore are left out at the end of the run.
            flat = loss.target if loss.target.ndim == 1 else loss.target.detach().reshape(-1)
            values = evenly_spaced(flat, 4096).clone() if flat.is_cpu else evenly_spaced(flat, 4096).cpu()
            targets.ignored = loss.options.get("ignore_index", -100)
            targets.values[phase].append(values)
            targets.counts[phase] += len(values)
            targets.read += phase == "training"
        self._answer(loss.target)
        self._pending = []

    def operation_ended(self, call: OperationCall) -> None:
        """In recorded evaluations: the labels that predictions are compared with."""
        if not self._pending or self._latest is None or self._latest[1] != "evaluation" or self.bus.call is not None:
            return
        given = [arg for arg in call.args if isinstance(arg, Tensor)]
        derived = [self._is_derived(tensor) for tensor in given]
        if call.name in _COMPARES and derived.count(True) == 1 == derived.count(False):
            labels = given[derived.index(False)]
            if labels.numel() == given[derived.index(True)].numel() and is_plain(labels) and is_readable(labels):
                known = self._answer(labels)
                if known is not None and call.name in EQUALITIES:
                    self._compared.setdefault(self._latest[0], []).append(known)
        if any(derived) and len(self._derived) < 256:
            self._derived |= {id(tensor): weakref.ref(tensor) for tensor in tensors_in(call.output)}

    def _is_derived(self, tensor: Tensor) -> bool:
        known = self._derived.get(id(tensor))
        return known is not None and known() is tensor

    def _answer(self, targets: Tensor) -> Tensor | None:
        """Keeps the targets of the latest call beside its rows, and its outputs beside both."""
        assert self._latest is not None
        if not self._pending or not targets.ndim or targets.numel() % self._pending[0].size:
            return None
        size = self._pending[0].size
        wide = targets.numel() // size
        if wide > MOST_OUTPUTS or (wide > 1 and targets.shape[0] != size):
            return None
        known = evenly_spaced(targets.detach().reshape(size, wide), self._pending[0].most).cpu().clone()
        single = known.reshape(-1) if wide == 1 else None
        for waiting in self._pending:
            if waiting.kept and single is not None and waiting.entry.rows[-1] is waiting.rows:
                waiting.entry.targets[-1] = single
        if self._latest in self._answers:
            self._answers[self._latest].add_targets(known)
        return single

    # -- facts --

    def run_ended(self, end: RunEnd) -> None:
        for (model, position, phase), entry in self._inputs.items():
            if entry.rows and (model, position) not in self._brought_along:
                self._summarize(model, position, phase, entry)
        self._compare_answers()
        self._compare_columns()
        self._compare_axes()
        for (model, place), targets in self._targets.items():
            evaluated = targets.counted("evaluation") or targets.without_ignored(self._compared.get(model, []))
            labels = [_labels(targets.counted("training")), _labels(evaluated)]
            if any(labels):
                counts, places = targets.calls, any(_are_places(calls) for calls in targets.values.values())
                self.emit(TargetsSummarized, place, model, targets.function, labels[0], labels[1],
                          counts["training"], targets.read, places)  # fmt: skip

    def _compare_answers(self) -> None:
        for (model, phase), evaluated in self._answers.items():
            entry = self._inputs.get((model, 0, phase))
            if phase == "training" or entry is None:
                continue
            trained = self._inputs.get((model, 0, "training"))
            known = {digest for rows in ([] if trained is None else trained.rows) for digest in digests(rows)}
            self._compare_order(model, evaluated.latest(without=known))
            found = judge(evaluated.latest(without=known))
            if found is None:
                continue
            in_training = self._answers.get((model, "training"))
            same = None if in_training is None else judge(in_training.latest(mixed=True))
            relation = same.relation if same is not None and same.kind == found.kind else None
            name = self.objects.models[model].name
            failed = relation is not None and relation - max(0.0, found.relation) >= LOST
            self.emit(AnswersCompared, entry.place, model, name, found.kind, found.rows, found.score, found.chance,
                      found.relation, relation, evaluated.step, found.moved,
                      apart=_apart(trained, entry) if failed else None)  # fmt: skip

    def _compare_order(self, model: int, evaluated: tuple[Tensor, Tensor] | None) -> None:
        kept = self._answers.get((model, "training"))
        found = exchanged(None if kept is None else kept.latest(mixed=True), evaluated)
        if found is not None and evaluated is not None:
            losses = [t for (of, _), t in self._targets.items() if of == model]
            place = max(losses, key=lambda loss: loss.calls["training"]).place if losses else None
            self.emit(
                TargetOrderCompared, place, model, len(evaluated[1]), evaluated[1].shape[1],
                tuple((one.low, one.high, one.evaluated, one.trained, one.difference, one.predicted) for one in found),
            )  # fmt: skip

    def _compare_columns(self) -> None:
        """Does a column hold the labels of its own training rows?"""
        for (model, position, phase), entry in self._inputs.items():
            trained = self._inputs.get((model, position, "training"))
            if phase == "training" or trained is None or (model, position) in self._brought_along:
                continue
            found = _new_pairs(trained, entry)
            if found is not None and found[0].classes and found[0].rows.dtype.is_floating_point:
                one, new = found
                pure = pure_column(one.rows, one.targets, new.rows, new.targets)
                if pure is None:
                    self.emit(OwnTargetColumn, entry.place, None, len(one.rows))
                else:
                    self.emit(OwnTargetColumn, entry.place, pure.column, len(one.rows), pure.rows, pure.values,
                              pure.new_rows, pure.contrary)  # fmt: skip

    def _compare_axes(self) -> None:
        """Is an axis of the inputs stretched in evaluation? Asked of all evaluated rows, and of each large call."""
        for (model, position, phase), entry in self._inputs.items():
            trained = self._inputs.get((model, position, "training"))
            if phase == "training" or trained is None or position or (model, position) in self._brought_along:
                continue
            known, pairs = (
                _labelled(trained),
                [(r, t) for r, t in zip(entry.rows, entry.targets, strict=True) if t is not None],
            )
            parts = [_labelled(entry), *(pair for pair in pairs if len(pair[0]) >= LARGE_CALL)]
            name = self.objects.models[model].name
            found = [event for part in parts if known is not None and part is not None
                     for event in _stretches(known, part)]  # fmt: skip
            for axis, rows, facts in sorted(found, key=lambda each: each[2] is None)[:1]:
                self.emit(InputsStretched, entry.place, model, name, rows, axis, *(facts or ()))

    def _summarize(self, model: int, position: int, phase: Phase, entry: _Input) -> None:
        name = self.objects.models[model].name
        known = [digest for part in entry.rows for digest in digests(part)]
        frequent, count = Counter(known).most_common(1)[0]
        same = count / len(known)
        facts: dict[str, Any] = {}
        if phase == "training" and same >= HALF:
            facts["identical_elsewhere"] = _least_share(frequent, self._inputs.get((model, position, "evaluation")))
        columns: tuple[Any, ...] = ()
        kept = _first_of_each(entry.rows)
        if phase == "evaluation":
            kept = _new(entry, kept, self._inputs.get((model, position, "training")))
        rows = _picked(entry.rows, kept)
        if rows.dtype.is_floating_point:
            table, kind = as_table(rows)
            targets, classes = _paired(entry) if len(table) == len(kept) else (None, False)
            targets = None if targets is None else targets[kept]
            if targets is not None and classes:
                counts = torch.unique(targets, return_counts=True)[1]
                facts["majority"], facts["classes"] = counts.max().item() / len(targets), len(counts)
            columns = column_facts(table, targets, classes)
            facts["memory_order"] = order_in_memory(rows)
            if len(entry.late) == LATE_CALLS and bool((late := torch.cat(list(entry.late))).isfinite().all()):
                facts["late_columns"] = column_facts(as_table(late)[0], None, False)
        else:
            kind = "tokens"
            facts["most_common"], facts["token_count"] = _most_common(torch.cat(entry.rows))
        facts["noise"] = is_noise(rows)
        del rows
        facts |= _probed(entry)
        if phase == "evaluation":
            facts |= _transferred(self._inputs.get((model, position, "training")), entry)
        self.emit(
            InputsSummarized, entry.place, model, name, position, phase, kind, entry.shape,  # type: ignore[arg-type]
            self._calls[model, phase], len(known), columns, same,
            distinct_rows=len(kept), uniform=uniform_batches(entry.rows), table=entry.table,
            arguments=entry.arguments, **facts,
        )  # fmt: skip


def _is_batch(tensor: Any) -> TypeGuard[Tensor]:
    usable = is_plain(tensor) and is_readable(tensor) and tensor.ndim >= 1 and not tensor.requires_grad
    return usable and tensor.shape[0] >= 1 and tensor.ndim >= 2


def _largest_table(call: ModuleCall) -> int:
    tables = (nn.Embedding, nn.EmbeddingBag)
    return max((m.num_embeddings for m in call.module.modules() if isinstance(m, tables)), default=0)


def _first_of_each(parts: list[Tensor]) -> list[int]:
    """The rows without repetitions: an epoch that comes again adds nothing."""
    known = [digest for part in parts for digest in digests(part)]
    return list({digest: index for index, digest in reversed(list(enumerate(known)))}.values())[::-1]


def _picked(parts: list[Tensor], places: list[int]) -> Tensor:
    """Rows by their places in all parts, which are not copied first."""
    wanted, start = torch.tensor(places, dtype=torch.long), 0
    dtype = reduce(torch.promote_types, (part.dtype for part in parts))
    rows = torch.empty(len(places), *parts[0].shape[1:], dtype=dtype)
    for part in parts:
        inside = (start <= wanted) & (wanted < start + len(part))
        rows[inside] = part[wanted[inside] - start].to(dtype)
        start += len(part)
    return rows


def _least_share(digest: int, evaluated: _Input | None) -> float | None:
    """Of a row, in the call that has the fewest of it; of calls with enough rows."""
    calls = [digests(part) for part in ([] if evaluated is None else evaluated.rows) if len(part) >= LEAST_NEW]
    return min((found.count(digest) / len(found) for found in calls), default=None)


def _new(entry: _Input, kept: list[int], trained: _Input | None) -> list[int]:
    """Evaluated rows without the batches of rows that were trained on: a script may evaluate both. All, if few are
    left."""
    known = {digest for part in ([] if trained is None else trained.rows) for digest in digests(part)}
    new: set[int] = set()
    start = 0
    for part in entry.rows:
        found = digests(part)
        if sum(digest in known for digest in found) < TRAINED * len(found):
            new.update(start + index for index, digest in enumerate(found) if digest not in known)
        start += len(found)
    fresh = [index for index in kept if index in new]
    return fresh if len(fresh) >= LEAST_NEW else kept


class _Pairs(NamedTuple):
    """Different rows with their targets."""

    rows: Tensor
    targets: Tensor
    classes: bool
    calls: list[tuple[Tensor, Tensor]]


def _pairs(entry: _Input) -> _Pairs | None:
    calls = [(r, t) for r, t in zip(entry.rows, entry.targets, strict=True) if t is not None and len(t) == len(r)]
    if not calls or calls[0][0][0].numel() > WIDEST or (calls[0][0].ndim > 2 and not calls[0][0].is_floating_point()):
        return None
    kept = _first_of_each([r for r, _ in calls])
    rows, targets = _picked([r for r, _ in calls], kept), torch.cat([t.double() for _, t in calls])[kept]
    distinct = len(torch.unique(targets))
    numbers = calls[0][1].is_floating_point()
    if distinct < 2 or not bool(rows.isfinite().all()) or (distinct > MOST_KINDS and not numbers):
        return None  # of so many classes a probe learns nothing, and their numbers are no amounts
    return _Pairs(rows, targets, bool((targets == targets.round()).all()) and distinct <= MOST_KINDS, calls)


def _labelled(entry: _Input) -> tuple[Tensor, Tensor] | None:
    """Different rows with their targets."""
    pairs = [(r, t) for r, t in zip(entry.rows, entry.targets, strict=True) if t is not None and len(t) == len(r)]
    if not pairs or not pairs[0][0].is_floating_point():
        return None
    kept = _first_of_each([r for r, _ in pairs])
    return _picked([r for r, _ in pairs], kept), torch.cat([t.double() for _, t in pairs])[kept]


def _stretches(
    trained: tuple[Tensor, Tensor], evaluated: tuple[Tensor, Tensor]
) -> Iterator[tuple[int, tuple[int, int], Stretch | None]]:
    """For each axis of the inputs."""
    known = torch.cat([trained[1], evaluated[1].double()])
    values, codes = torch.unique(known, return_inverse=True)
    classes = bool((known == known.round()).all()) and len(values) <= MOST_CLASSES
    targets = indicators(codes, len(values)) if classes else known[:, None]
    halves = targets[: len(trained[1])], targets[len(trained[1]) :]
    others = stretchable(evaluated[0])
    for axis, rows in stretchable(trained[0]).items():
        if axis not in others:  # rows of a different size, with fewer axes that are long enough
            continue
        counts = (len(rows), len(others[axis]))
        if min(counts) >= LARGE_CALL:
            yield axis, counts, stretch(rows, halves[0], others[axis], halves[1])


def _probed(entry: _Input) -> dict[str, Any]:
    """How well a probe predicts the targets from the rows, where both are known."""
    pairs = _pairs(entry)
    if pairs is None or len(pairs.rows) < LEAST_PAIRS:
        return {}
    found = probe(pairs.rows, pairs.targets, pairs.classes)
    if found is None or (found.score < found.chance + 0.1 and differs_by_call(pairs.calls, pairs.classes)):
        return {}
    return {"probed": found.rows, "probe": found.score, "chance": found.chance}


def _apart(trained: _Input | None, entry: _Input) -> RowsApart | None:
    """How evaluated rows differ from training rows, where these come again unchanged."""
    rows = [] if trained is None else trained.rows
    kept = _first_of_each(rows)
    if len(kept) > SAME_AGAIN * sum(len(part) for part in rows):
        return None
    return rows_apart(_picked(rows, kept), _picked(entry.rows, _new(entry, _first_of_each(entry.rows), trained)))


def _transferred(trained: _Input | None, entry: _Input) -> dict[str, Any]:
    """How well a probe of the training rows predicts the targets of evaluated rows."""
    pairs = None if trained is None else _new_pairs(trained, entry)
    if pairs is None:
        return {}
    one, new = pairs
    found = transfer(one.rows, one.targets, new.rows, new.targets, one.classes)
    return {} if found is None else {"transferred": found.score, "transferred_rows": found.rows}


def _new_pairs(trained: _Input, entry: _Input) -> tuple[_Pairs, _Pairs] | None:
    """Training rows, and evaluated rows that were not trained on, with their targets."""
    one, other = _pairs(trained), _pairs(entry)
    if one is None or other is None or one.classes != other.classes or one.rows.shape[1:] != other.rows.shape[1:]:
        return None
    known = set(digests(one.rows))
    new = [index for index, digest in enumerate(digests(other.rows)) if digest not in known]
    return (one, other._replace(rows=other.rows[new], targets=other.targets[new])) if new else None


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


def _are_places(calls: list[Tensor]) -> bool:
    """Each call has every number once: a permutation of its rows, or the same numbers in each call of a size."""
    first: dict[int, Tensor] = {}
    for values in calls:
        size = len(values)
        if values.dtype.is_floating_point or len(torch.unique(values)) < size:
            return False
        same = torch.equal(first.setdefault(size, values), values) and len(calls) > 1
        if not same and bool((values.sort().values != torch.arange(size, device=values.device)).any()):
            return False
    return any(size > 1 for size in first)


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
