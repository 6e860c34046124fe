"""Calls of loss functions: shape, dtype and values of the arguments, and the operations behind them.

Values are read on the first calls at a place and on some later ones.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import LossComputed, Place
from trueloop.event.operation_names import CLASS_LOSSES, DISTANCE_LOSSES
from trueloop.measure.loss import TARGETS, Activation, LossInputs, loss_computed
from trueloop.measure.tensors import evenly_spaced
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, PredictionCompared
from trueloop.taps.graph_notes import ACTIVATION, read_note

__all__ = ["LossObserver"]

FIRST_CALLS: Final = 6  # first calls at a place, all emitted: rules want to see a thing more than once
EVERY: Final = 50  # after that, one call in so many
EARLY: Final = 200  # up to this call
SELDOM: Final = 500  # and then one in so many: a call costs as much as a few small steps
COMPARISONS: Final = 64  # comparisons of predictions to look at: an accuracy shows in the first few
MOST_CLASSES: Final = 1000  # integers above this are amounts, not classes
LEAST_SHARE: Final = 0.5
"""Share of an even split that the rarest integer needs for rounded predictions to count as classes: counts have thin
tails."""
ENOUGH: Final = 20  # targets per class, on average, to measure their spread: even classes then pass LEAST_SHARE


@dataclass(slots=True)
class _Suspect:
    """A distance loss on integers: are they classes?"""

    event: LossComputed
    count: int = 0  # number of targets in the latest call
    latest: Tensor | None = None  # our own small copy of them
    rounded_against: Counter[float] = field(default_factory=Counter)  # how often each number met a rounded prediction


class LossObserver(Observer):
    emits = (LossComputed,)

    def prepare(self) -> None:
        self._calls: Counter[tuple[str, int]] = Counter()  # by function and identity of the place (one object per line)
        self._suspects: dict[Place | None, _Suspect] = {}
        self._looks = COMPARISONS

    def loss_called(self, loss: LossCall) -> None:
        key = (loss.function, id(loss.place))
        call = self._calls[key]
        self._calls[key] = call + 1
        if call < FIRST_CALLS or call % (EVERY if call <= EARLY else SELDOM) == 0:
            event = self._facts(loss, call)
            if event is None:
                return
            self.bus.emit(event)
            if self._looks and _may_be_classes(event):
                loss.watch_predictions = True
                self._suspects.setdefault(loss.place, _Suspect(event)).event = event
            else:
                self._suspects.pop(loss.place, None)
        if self._suspects and (suspect := self._suspects.get(loss.place)) is not None:
            suspect.count = loss.target.numel()
            suspect.latest = evenly_spaced(loss.target.detach().reshape(-1), TARGETS).float().clone()

    def prediction_compared(self, comparison: PredictionCompared) -> None:
        """Is a prediction compared with the latest targets of a suspect?"""
        self._looks = max(0, self._looks - 1)
        for place, suspect in tuple(self._suspects.items()) if self._looks else ():
            if suspect.latest is None or suspect.count != comparison.other.numel():
                continue
            other = evenly_spaced(comparison.other.detach().reshape(-1), TARGETS).float().to(suspect.latest.device)
            if not torch.equal(other, suspect.latest):
                continue
            if comparison.kind == "round":
                suspect.rounded_against.update(other.tolist())
            if comparison.kind == "argmax" or _evenly_spread(suspect.rounded_against):
                del self._suspects[place]
                self.bus.emit(replace(suspect.event, step=self.bus.step, target_used_as_class=True))

    def _facts(self, loss: LossCall, call: int) -> LossComputed | None:
        ignored = loss.options.get("ignore_index", -100 if loss.function in CLASS_LOSSES else None)
        reduction = str(loss.options.get("reduction", "mean"))
        log_target = loss.options.get("log_target") is True
        inputs = LossInputs(loss.function, loss.input, loss.target, reduction, ignored, log_target)
        grad = loss.output.requires_grad
        return loss_computed(inputs, _activation_of, step=self.bus.step, place=loss.place, call=call, grad=grad)


def _activation_of(node: Any) -> Activation | None:
    note: Activation | None = read_note(node, ACTIVATION)
    return note


# -- classes or amounts --


def _may_be_classes(event: LossComputed) -> bool:
    """A distance to several integers, from 0 or 1 on: worth checking what predictions are compared with."""
    integral = event.target_integral and event.target_distinct > 1
    if event.function not in DISTANCE_LOSSES or not integral or event.target_range is None:
        return False
    return event.target_range[0] >= 0 and event.target_range[1] < MOST_CLASSES


def _evenly_spread(numbers: Counter[float]) -> bool:
    """Every integer from 0 to the largest is frequent: labels rather than counts or grades."""
    classes = int(max(numbers)) + 1
    even = numbers.total() / classes
    return 2 < classes == len(numbers) and even >= ENOUGH and min(numbers.values()) >= LEAST_SHARE * even
