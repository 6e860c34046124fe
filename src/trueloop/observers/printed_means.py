"""Which mean of its losses an evaluation prints: over batches, over all that the losses average, or the last loss.

A printed number is recognized by its digits. Only numbers are kept.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import torch

from trueloop.event import EvaluationPrinted, Place
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LinePrinted, LoaderStart, LossCall, ModuleCall, RunEnd, tensors_in
from trueloop.usercode.printed import printed_numbers

__all__ = ["PrintedMeansObserver"]

BATCHES: Final = 3  # of two, the last is half of the mean
MOST: Final = 4096  # batches of a pass
RECENT: Final = 4  # passes whose numbers may still be printed: validation and test, then one line
ROUNDED: Final = 1.01  # of half a digit: the script's own rounding
KINDS: Final = ("batches", "elements", "last")


@dataclass(slots=True)
class _Pass:
    """Losses of one model at one line, without gradients."""

    model: int
    place: Place | None
    step: int
    sizes: list[int] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)  # (mean loss, numbers that it averages)
    loss_place: Place | None = None
    printed: set[str] = field(default_factory=set)
    printed_at: Place | None = None
    in_between: bool = False  # a number of one batch was printed before the last one

    def values(self) -> tuple[float, float, float] | None:
        if not BATCHES <= len(self.losses) == len(self.sizes) < MOST:
            return None
        total = sum(count for _, count in self.losses)
        over_all = sum(loss * count for loss, count in self.losses) / max(1, total)
        return sum(loss for loss, _ in self.losses) / len(self.losses), over_all, self.losses[-1][0]


@dataclass(slots=True)
class _Line:
    """All passes with one loss."""

    counts: Counter[str] = field(default_factory=Counter)
    last: _Pass | None = None
    in_between: bool = False


class PrintedMeansObserver(Observer):
    emits = (EvaluationPrinted,)

    def prepare(self) -> None:
        self._pass: _Pass | None = None
        self._recent: list[_Pass] = []
        self._lines: dict[tuple[int, Place | None], _Line] = {}

    def loader_started(self, start: LoaderStart) -> None:
        self._close()

    def watching_resumed(self, nothing: None) -> None:
        self._pass = None
        self._recent.clear()

    def module_call_ended(self, call: ModuleCall) -> None:
        if call.grad:
            self._close()
            while self._recent:
                self._count(self._recent.pop(0))
            return
        known = self.objects.model(call.module)
        first = next(tensors_in((call.args, call.kwargs), limit=4), None)
        if known is None or call.failed or first is None or not first.dim():
            return
        current = self._pass
        if current is None or (current.model, current.place) != (known.number, call.place):
            self._close()
            current = self._pass = _Pass(known.number, call.place, self.bus.step)
        if len(current.sizes) < MOST:
            current.sizes.append(first.shape[0])

    def loss_called(self, loss: LossCall) -> None:
        current, output = self._pass, loss.output
        mean = str(loss.options.get("reduction", "mean")) == "mean" and loss.options.get("weight") is None
        if current is None or output.requires_grad or output.dim() or not mean or not loss.input.dim():
            return
        readable = output.is_cpu and is_plain(output) and is_readable(output) and loss.target.is_cpu
        if readable and len(current.losses) < MOST:
            current.loss_place = loss.place
            current.losses.append((float(output), _averaged(loss)))

    def line_printed(self, line: LinePrinted) -> None:
        if self._pass is None and not self._recent:
            return
        numbers = list(printed_numbers(line.text))
        if self._pass is not None and self._pass.losses and _shows(numbers, self._pass.losses[-1][0]):
            self._pass.printed.add(f"batch {len(self._pass.losses)}")
        for done in (*self._recent, *filter(None, [self._pass])):
            values = done.values() if numbers else None
            shown = {kind for kind, value in zip(KINDS, values or (), strict=False) if _shows(numbers, value)}
            if values is not None and _are_apart(numbers, values):
                done.printed |= shown
                done.printed_at = line.place if shown else done.printed_at

    def run_ended(self, end: RunEnd) -> None:
        self._close()
        for done in self._recent:
            self._count(done)
        for (_, place), line in self._lines.items():
            values = None if line.last is None else line.last.values()
            if line.last is None or values is None:
                continue
            counts, rows = line.counts, [count for _, count in line.last.losses]
            self.emit(
                EvaluationPrinted,
                line.last.printed_at,
                place,
                counts["passes"],
                counts["batches"],
                counts["elements"],
                counts["last"],
                tuple(zip(line.last.sizes, rows, strict=True)),
                values,
                line.in_between,
            )

    def _close(self) -> None:
        done, self._pass = self._pass, None
        if done is not None and done.losses:
            self._recent.append(done)
            if len(self._recent) > RECENT:
                self._count(self._recent.pop(0))

    def _count(self, done: _Pass) -> None:
        line = self._lines.setdefault((done.model, done.loss_place), _Line())
        single = {f"batch {number}" for number in range(1, len(done.losses))}
        line.in_between = line.in_between or not done.printed.isdisjoint(single)
        shown = done.printed & set(KINDS)
        if shown:
            line.counts.update(["passes", *shown])
            line.last = done


@torch.no_grad()
def _averaged(loss: LossCall) -> int:
    """How many numbers the loss is the mean of: labels that are not ignored, or all elements."""
    if loss.function in CLASS_LOSSES and not loss.target.is_floating_point():
        ignored = loss.options.get("ignore_index", -100)
        return int((loss.target != ignored).sum())
    return loss.input.numel()


def _shows(numbers: list[tuple[float, float]], value: float) -> bool:
    return any(abs(number - value) <= ROUNDED * half for number, half in numbers)


def _are_apart(numbers: list[tuple[float, float]], values: tuple[float, float, float]) -> bool:
    """Where a printed number shows one of them, it shows no second one."""
    for number, half in numbers:
        near = [value for value in values if abs(number - value) <= ROUNDED * half]
        if near and any(abs(value - near[0]) <= 2 * ROUNDED * half for value in values if value not in near):
            return False
        if len(near) > 1 and max(near) > min(near):
            return False
    return True
