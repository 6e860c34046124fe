"""LOS161 sampled-at-untrained-times: a diffusion or flow model is asked at times that it was never trained on.

What it sees
------------
In training a model gets a time that is drawn at random for every sample. Without gradients it gets one time for all
samples, and this time lies far outside the range of training (by four times its width or more); or training draws
whole numbers, and sampling gives fractions between 0 and 1.

Why it hurts
------------
`t / steps` in training and `t` in sampling, or the reverse, have the same shape and no error. The network answers for
times that it has never seen: the samples are wrong, although the training loss is fine.

Evidence
--------
The range of the times in training and in sampling, and the number of training samples.

Use instead
-----------
    def denoise(model, x, t):
        return model(x, t.float() / steps)       # one function for training and for sampling

When it is fine
---------------
Not reported: times that are looked up in a table (whole numbers of an integer type), times that reach a little beyond
the trained range, conditions that are data and not drawn, noise levels that are drawn from a normal distribution, and
times between the trained ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import ELEMENTWISE, JOINS, NORMAL, RANDOM
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SampledAtUntrainedTimes"]

DRAWN: Final = 64  # times that training must have drawn
CALLS: Final = 2  # sampling calls that must agree
BEYOND: Final = 4.0  # widths of the trained range
STEPS: Final = 8  # the largest whole time of training that shows that times count steps
_MOST: Final = 6  # operations from a draw to a time
_JOINS: Final = JOINS | {"hstack", "column_stack"}

_Argument = tuple[int, int, int]  # model, position of the argument, part of it


@dataclass(slots=True)
class _Trained:
    smallest: float = float("inf")
    largest: float = float("-inf")
    drawn: int = 0
    whole: bool = True
    other: bool = False  # a part of the calls got something else


@dataclass(slots=True)
class _Sampled:
    event: StepProgram
    place: Place | None
    times: list[float] = field(default_factory=list)


class SampledAtUntrainedTimes(Rule, code="LOS161", severity=Severity.WARNING):
    not_applicable = "no model that gets a random time in training was called without gradients"

    def __init__(self) -> None:
        self._trained: dict[_Argument, _Trained] = {}
        self._sampled: dict[_Argument, _Sampled] = {}

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        for use in event.models:
            for position, part, value in _times(view, use.inputs):
                key = use.model, position, part
                if event.phase == "training" and use.grad:
                    self._train(view, key, value)
                elif not use.grad and view.values[value].constant:
                    sampled = self._sampled.setdefault(key, _Sampled(event, use.place))
                    sampled.times.append(view.values[value].largest or 0.0)

    def _train(self, view: ProgramView, key: _Argument, value: int) -> None:
        trained, times = self._trained.setdefault(key, _Trained()), view.values[value]
        source = _draw(view, value)
        if source is None or times.constant:
            trained.other = True
            return
        trained.whole &= source.name.startswith("randint") and times.largest == view.values[source.outputs[0]].largest
        trained.smallest = min(trained.smallest, times.smallest or 0.0)
        trained.largest = max(trained.largest, times.largest or 0.0)
        trained.drawn += times.shape[0]

    def on_run_ended(self, _: RunEnded) -> Findings:
        for key, sampled in self._sampled.items():
            trained = self._trained.get(key)
            if trained is None or trained.other or trained.drawn < DRAWN or len(set(sampled.times)) < CALLS:
                continue
            if not _is_far(trained, sampled.times) and not _is_fraction(trained, sampled.times):
                continue
            low, high = min(sampled.times), max(sampled.times)
            yield self.finding(
                sampled.event,
                f"The model gets a time from {trained.smallest:.3g} to {trained.largest:.3g} in training, and from "
                f"{low:.3g} to {high:.3g} in sampling: it was never trained at these times.",
                fix="Scale the time in one function that training and sampling both call.",
                evidence={"trained": [trained.smallest, trained.largest], "sampled": [low, high],
                          "training_samples": trained.drawn},
                place=sampled.place,
            )  # fmt: skip


def _draw(view: ProgramView, value: int) -> Operation | None:
    """The draw, within limits, that the times were scaled from; None where they are anything else."""
    for _ in range(_MOST):
        maker = view.maker(view.through_views(value))
        if maker is None or maker.name in RANDOM:
            return None if maker is None or maker.name in NORMAL else maker  # a normal draw has no limits
        if maker.name not in ELEMENTWISE or len(maker.inputs) != 1:
            return None
        value = maker.inputs[0]
    return None


def _times(view: ProgramView, inputs: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Arguments, and parts of concatenated ones, with one number for each sample: position, part, value."""
    for position, value in enumerate(inputs):
        maker = view.maker(value)
        parts = maker.inputs if maker is not None and maker.name in _JOINS else (value,)
        for part, each in enumerate(parts):
            about = view.values[each]
            single = len(about.shape) == 1 or (len(about.shape) == 2 and about.shape[1] == 1)
            measured = about.smallest is not None and about.largest is not None
            if single and measured and about.shape[0] > 1 and about.dtype.startswith(("float", "bfloat")):
                yield position, part, each


def _is_far(trained: _Trained, times: list[float]) -> bool:
    """Most of them are many times the trained range away from it; a count that goes down to 0 ends inside it."""
    margin = BEYOND * (trained.largest - trained.smallest)
    return 2 * sum(not trained.smallest - margin <= time <= trained.largest + margin for time in times) > len(times)


def _is_fraction(trained: _Trained, times: list[float]) -> bool:
    fractions = [time for time in times if time != int(time)]
    return trained.whole and trained.largest >= STEPS and max(times) <= 1 and 2 * len(fractions) > len(times)
