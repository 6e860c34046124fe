"""Numbers that are printed after passes over a loader: scores of outputs against labels in a different order?

The outputs of each batch belong to the labels of that batch. A loop that collects the outputs only, and takes the
labels from the dataset or from a second pass, prints a different score if the loader shuffles. The number shows it by
its digits, whatever computed it. Only numbers are kept.
"""

import weakref
from dataclasses import dataclass, field
from math import log10
from typing import Any, Final, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler

from trueloop.event import OtherLabelsScored, Place, PrintedScore
from trueloop.measure.scores import scores
from trueloop.measure.stored_columns import stored_columns
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LinePrinted, LoaderStart, ModuleCall, RunEnd, tensors_in
from trueloop.usercode.printed import printed_numbers

__all__ = ["PrintedScoresObserver"]

_Order = Literal["dataset", "pass"]

MOST_ROWS: Final = 2**16  # of a pass
MOST_NUMBERS: Final = 2**21  # of its outputs
LABELS: Final = 8  # tensors of a batch that are read
RECENT: Final = 3  # passes whose scores may still be printed
PASSES: Final = 48  # that are examined
ON_DEVICE: Final = 12  # of them, if the outputs are on a device: a read makes the host wait
DATASETS: Final = 8  # whose labels are remembered in the order of a pass without a model
ROUNDED: Final = 1.01  # of half a digit
APART: Final = 25.0  # half digits between the two scores
SCALES: Final = (1.0, 100.0)  # a share, or percent


@dataclass(slots=True)
class _Pass:
    loader: weakref.ref[DataLoader[Any]]
    number: int
    dataset: int  # its identity: two loaders may read one dataset
    sizes: list[int] = field(default_factory=list)
    labels: list[dict[int, Tensor]] = field(default_factory=list)  # of each batch, by their place in it
    given: set[int] = field(default_factory=set)  # places in the batch of tensors that the model is given
    outputs: dict[int, list[Tensor]] = field(default_factory=dict)  # by model
    place: Place | None = None
    numbers: int = 0
    orders: dict[tuple[_Order, int], Tensor] = field(default_factory=dict)  # the same labels in different orders
    own: dict[str, float] = field(default_factory=dict)
    other: dict[tuple[_Order, str], tuple[float, float]] = field(default_factory=dict)  # the score, and the own one
    asked: bool = False
    shown: dict[_Order, PrintedScore] = field(default_factory=dict)
    shown_at: Place | None = None
    own_shown: bool = False

    def rows(self) -> int:
        return sum(self.sizes)

    def joined(self, key: int) -> Tensor | None:
        parts = [labels[key] for labels in self.labels if key in labels]
        return _cat(parts) if len(parts) == len(self.sizes) else None


@dataclass(slots=True)
class _Line:
    model: str
    passes: int = 0
    own_passes: int = 0
    digits: float = 0.0
    latest: PrintedScore | None = None
    rows: int = 0
    printed_at: Place | None = None


class PrintedScoresObserver(Observer):
    emits = (OtherLabelsScored,)

    def prepare(self) -> None:
        self._pass: _Pass | None = None
        self._recent: list[_Pass] = []
        self._left = PASSES
        self._order: list[int] = []  # identities of the tensors of the latest batch
        self._without_outputs: dict[int, dict[int, Tensor]] = {}  # labels of a pass without a model, by dataset
        self._lines: dict[tuple[Place | None, _Order], _Line] = {}  # a search builds a new model for each pass

    def watching_resumed(self, nothing: None) -> None:
        self._pass = None
        self._recent.clear()

    def loader_started(self, start: LoaderStart) -> None:
        self._close()
        if self._left and _is_counted(start.loader):
            self._pass = _Pass(
                weakref.ref(start.loader), self.bus.ordinal("loader", start.loader), id(start.loader.dataset)
            )

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        current = self._pass
        if current is None:
            return
        if drawn.number != current.number or current.rows() > MOST_ROWS:
            self._pass = None
            return
        tensors = list(tensors_in(drawn.batch, limit=LABELS))
        rows = len(tensors[0]) if tensors and tensors[0].ndim else 0
        if not rows:
            self._pass = None
            return
        current.sizes.append(rows)
        labels = {}
        for key, tensor in enumerate(tensors[:LABELS]):
            fit = is_plain(tensor) and tensor.is_cpu and tensor.shape in ((rows,), (rows, 1)) and is_readable(tensor)
            if fit:
                labels[key] = tensor.detach().double().reshape(-1).clone()
        current.labels.append(labels)
        self._order = [id(tensor) for tensor in tensors]

    def module_call_ended(self, call: ModuleCall) -> None:
        if call.grad:
            self._pass = None
            while self._recent:
                self._count(self._recent.pop(0))
            return
        current = self._pass
        known = self.objects.model(call.module) if current is not None and current.sizes else None
        if current is None or known is None or call.failed:
            return
        output = next(tensors_in((call.output,), limit=4), None)
        given = {id(tensor) for tensor in tensors_in((call.args, call.kwargs), limit=8)}
        current.given |= {key for key, number in enumerate(self._order) if number in given}
        collected = current.outputs.setdefault(known.number, [])
        if not is_plain(output) or not is_readable(output) or output.ndim not in (1, 2):
            collected.clear()
            return
        if len(output) != current.sizes[-1] or len(collected) != len(current.sizes) - 1:
            collected.clear()  # not one output for each batch: it stays incomplete
            return
        if not output.is_cpu and self._left <= PASSES - ON_DEVICE:
            self._pass = None
            return
        current.numbers += output.numel()
        if current.numbers <= MOST_NUMBERS:
            values = output.detach().float().cpu()
            collected.append(values.reshape(-1).clone() if values.numel() == len(values) else values.clone())
            current.place = call.place

    def line_printed(self, line: LinePrinted) -> None:
        current = self._pass
        if current is not None and _is_over(current):
            self._close()
        if not self._recent:
            return
        numbers = list(printed_numbers(line.text))
        for done in self._recent if numbers else ():
            self._ask(done)
            _look(done, numbers, line.place)

    def run_ended(self, end: RunEnd) -> None:
        self._close()
        for done in self._recent:
            self._count(done)
        for (place, order), line in self._lines.items():
            if line.latest is not None:
                self.emit(OtherLabelsScored, line.printed_at, order, line.model, line.rows, line.passes,
                          line.own_passes, line.latest, line.digits, place)  # fmt: skip

    # -- one pass --

    def _close(self) -> None:
        done, self._pass = self._pass, None
        if done is None or not done.sizes:
            return
        labels = {key: joined for key in done.labels[0] if (joined := done.joined(key)) is not None}
        if not done.outputs:
            if done.dataset in self._without_outputs or len(self._without_outputs) < DATASETS:
                self._without_outputs[done.dataset] = labels
            for recent in self._recent:
                if recent.dataset == done.dataset:
                    recent.asked = False
                    recent.orders |= {("pass", key): values for key, values in labels.items()}
            return
        if done.numbers <= MOST_NUMBERS and self._left:
            self._left -= 1
            known = self._without_outputs.get(done.dataset, {})
            done.orders |= {("pass", key): values for key, values in known.items()}
            self._recent.append(done)
            if len(self._recent) > RECENT:
                self._count(self._recent.pop(0))

    def _ask(self, done: _Pass) -> None:
        """Compute its scores, once."""
        if done.asked:
            return
        done.asked = True
        loader, rows = done.loader(), done.rows()
        shuffles = loader is not None and not isinstance(loader.sampler, SequentialSampler)
        stored = stored_columns(loader.dataset, rows) if loader is not None and shuffles else []
        outputs = [_cat(parts) for parts in done.outputs.values() if len(parts) == len(done.sizes)]
        for key in done.labels[0].keys() - done.given if outputs and outputs[-1] is not None else ():
            own = done.joined(key)
            if own is None or outputs[-1] is None:
                continue
            orders: list[tuple[_Order, Tensor]] = [("dataset", column) for column in stored]
            orders += [(order, values) for (order, place), values in done.orders.items() if place == key]
            expected = scores(outputs[-1], own)
            done.own |= {f"{key} {name}": value for name, value in expected.items()}
            for order, labels in orders:
                if _is_permuted(labels, own):
                    found = scores(outputs[-1], labels)
                    done.other |= {
                        (order, f"{key} {name}"): (value, expected[name])
                        for name, value in found.items() if name in expected
                    }  # fmt: skip

    def _count(self, done: _Pass) -> None:
        orders: tuple[_Order, ...] = ("dataset", "pass")
        number = next(iter(done.outputs), 0)
        names = {known.number: known.name for known, _ in self.objects.living_models()}
        for order in orders:
            shown = done.shown.get(order)
            line = self._lines.get((done.place, order))
            if line is None and (shown is not None or done.own_shown):
                line = self._lines[done.place, order] = _Line(names.get(number, "the model"))
            if line is None:
                continue
            line.own_passes += done.own_shown
            if shown is not None and not done.own_shown:
                line.passes += 1
                line.digits += shown.digits
                line.latest, line.rows, line.printed_at = shown, done.rows(), done.shown_at


def _look(done: _Pass, numbers: list[tuple[float, float]], place: Place | None) -> None:
    """Which scores the numbers of a printed line show."""
    tried = len(SCALES) * len(numbers) * max(1, len(done.other))
    for number, half in numbers:
        apart = {key: pair for key, pair in done.other.items() if _are_apart(pair, half) and number}
        others = [(key, pair) for key, pair in apart.items() if _is_shown(number, half, pair[0])]
        if any(_is_shown(number, half, value) for value in done.own.values()):
            own = any(_is_shown(number, half, pair[1]) for pair in apart.values())
            done.own_shown = done.own_shown or (own and not others)  # else it may be either
            continue
        for (order, name), pair in others:
            digits = log10(abs(number) / (2 * half)) - log10(tried)
            if order not in done.shown or done.shown[order].digits < digits:
                done.shown[order] = PrintedScore(name.partition(" ")[2], number, pair[1], digits)
                done.shown_at = place


def _is_shown(number: float, half: float, value: float) -> bool:
    return any(abs(number - scale * value) <= ROUNDED * half for scale in SCALES)


def _are_apart(values: tuple[float, float], half: float) -> bool:
    return abs(values[0] - values[1]) > APART * half


def _is_permuted(labels: Tensor, own: Tensor) -> bool:
    """The same labels in a different order."""
    if labels.shape != own.shape or bool((labels == own).all()):
        return False
    return bool((labels.sort().values - own.sort().values).abs().max() <= 1e-6 * own.abs().max())


def _is_counted(loader: DataLoader[Any]) -> bool:
    """Its length is known without a call of the user's code."""
    samplers = [sampler for sampler in (loader.sampler, loader.batch_sampler) if sampler is not None]
    known = all(type(sampler).__module__.startswith("torch.") for sampler in samplers)
    return known and not isinstance(loader.dataset, IterableDataset)


def _is_over(current: _Pass) -> bool:
    loader = current.loader()
    return loader is not None and bool(current.sizes) and len(current.sizes) == len(loader)


def _cat(parts: list[Tensor]) -> Tensor | None:
    return torch.cat(parts) if parts and len({part.shape[1:] for part in parts}) == 1 else None
