"""LOS152 fakes-scored-with-other-labels: a critic gets generated samples beside labels that they were not made for.

What it sees
------------
In recorded training steps one model makes samples for labels, and a second model gets these samples together with
different labels of the same range. The second model also gets real samples of the same shape with their labels.

Why it hurts
------------
The critic learns which labels go with which samples. If the labels of generated samples are drawn again, a sample that
fits its label perfectly is scored beside a wrong one. The generator can only learn to ignore its label.

Evidence
--------
The call that makes the samples, the call that scores them, and the number of recorded steps that show it.

Use instead
-----------
    y = torch.randint(0, 10, (n,))
    fake = G(z, y)
    score = D(fake, y)                  # the labels that the samples were made for

When it is fine
---------------
Not reported: real samples with wrong labels (matching-aware critics), samples that are also scored with their own
labels, mixtures of real and generated samples (a gradient penalty), labels that are computed from the given ones
(a permutation), labels of a different range, and models that are never given real samples.
"""

from collections.abc import Iterator, Set
from math import prod
from typing import Final, NamedTuple

from trueloop.event import ModelUse, Place, RunEnded, StepProgram
from trueloop.event.operation_names import RANDOM
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line, path_and_line

__all__ = ["FakesScoredWithOtherLabels"]

SAMPLED: Final = 2  # recorded steps that must show it
LEAST: Final = 8  # labels of a batch


class _Inputs(NamedTuple):
    """What a call of a model was given, followed back to other models, draws and data."""

    labels: frozenset[int]  # integers, one for each sample
    made: frozenset[int]  # outputs of other models
    data: frozenset[int]  # rows of data that are not integers


class _Scored(NamedTuple):
    event: StepProgram
    maker: ModelUse
    critic: ModelUse
    made_for: tuple[float, float]  # range of the labels
    beside: tuple[float, float]


class FakesScoredWithOtherLabels(Rule, code="LOS152", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._real: set[tuple[int, tuple[int, ...]]] = set()  # models that got real samples with labels, and the shapes
        self._matched: set[int] = set()  # models that got generated samples with their own labels
        self._scored: dict[Place | None, list[_Scored]] = {}  # by the line of the call

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for critic in event.models:
            given = _inputs(view, critic)
            if given is None or len(given.labels) != 1:
                continue
            label = next(iter(given.labels))
            if not given.made:
                self._real |= {(critic.model, shape) for shape in _shapes_behind(view, critic)}
            for maker in _makers(view, critic, given):
                own = _inputs(view, maker)
                if own is None or len(own.labels) != 1:
                    continue
                first = next(iter(own.labels))
                if _differ(view, first, label):  # first: a new draw may get the memory of one that was freed
                    scored = _Scored(event, maker, critic, _range(view, first), _range(view, label))
                    self._scored.setdefault(critic.place, []).append(scored)
                elif first == label or view.values[first].memory == view.values[label].memory:
                    self._matched.add(critic.model)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, calls in self._scored.items():
            event, maker, critic, *_ranges = calls[-1]
            shape = event.values[maker.outputs[0]].shape[1:]
            if len(calls) < SAMPLED or critic.model in self._matched or (critic.model, shape) not in self._real:
                continue
            if _widest(call.made_for for call in calls) != _widest(call.beside for call in calls):
                continue
            yield self.finding(
                event,
                f"`{critic.name}` gets samples that `{maker.name}` made{on_line(maker.place, place)}, beside labels "
                f"that they were not made for, in {len(calls)} recorded calls.",
                fix="Give the critic the labels that the generator got: draw them once, `y`, for `G(z, y)` and "
                "`D(fake, y)`.",
                evidence={"made": path_and_line(maker.place), "shape": list(event.values[maker.outputs[0]].shape),
                          "recorded_calls": len(calls)},
                place=place,
            )  # fmt: skip


def _makers(view: ProgramView, critic: ModelUse, given: _Inputs) -> list[ModelUse]:
    """Calls of one other model whose only output the critic got, without data of that shape mixed in."""
    makers = [use for use in view.program.models if use.model != critic.model and given.made.intersection(use.outputs)]
    if len(makers) != 1 or len(makers[0].outputs) != 1:
        return []
    shape = view.values[makers[0].outputs[0]].shape
    ways = [index for index in critic.inputs if given.labels.intersection(_leaves(view, (index,), given.made))]
    if len(ways) != 1:
        return []  # the labels also changed the samples: times at which noise was added
    mixed = any(prod(view.values[index].shape) == prod(shape) for index in given.data)
    return [] if mixed or len(shape) < 2 else makers


def _inputs(view: ProgramView, use: ModelUse) -> _Inputs | None:
    """None: it got no tensor."""
    if not use.inputs or not use.outputs or not view.values[use.outputs[0]].shape:
        return None
    samples = view.values[use.outputs[0]].shape[0]
    outputs = {index for other in view.program.models for index in other.outputs if other is not use}
    embedded = {index for other in view.program.models for index in other.outputs if _is_a_table(view, other)}
    labels, made, data = set(), set(), set()
    for index in _leaves(view, use.inputs, outputs - embedded):
        value = view.values[index]
        if index in outputs:
            made.add(index)
        elif "int" in value.dtype:
            labels |= {index} if prod(value.shape) == samples >= LEAST and not value.constant else set()
        elif value.origin in ("batch", "outside") and value.shape[:1] == (samples,):
            data.add(index)
    return _Inputs(frozenset(labels), frozenset(made), frozenset(data))


def _shapes_behind(view: ProgramView, use: ModelUse) -> set[tuple[int, ...]]:
    """Shapes of a sample of everything that the inputs of a call were computed from."""
    samples = view.values[use.outputs[0]].shape[0]
    values = [view.values[index] for given in use.inputs for index in view.behind(given)]
    return {value.shape[1:] for value in values if value.shape[:1] == (samples,) and "float" in value.dtype}


def _is_a_table(view: ProgramView, use: ModelUse) -> bool:
    """A call of an embedding: its input is all there is to know."""
    return len(use.inputs) == 1 and "int" in view.values[use.inputs[0]].dtype


def _leaves(view: ProgramView, values: tuple[int, ...], stops: Set[int]) -> Iterator[int]:
    """What values were computed from: outputs of models, draws, and tensors from before the step."""
    seen, waiting = set(values), list(values)
    while waiting:
        index = waiting.pop()
        maker = view.maker(index)
        if index in stops or maker is None or maker.name in RANDOM or not maker.inputs:
            yield index
            continue
        new = [source for source in maker.inputs if source not in seen]
        seen.update(new)
        waiting += new


def _differ(view: ProgramView, one: int, other: int) -> bool:
    """They are not copies of the same numbers."""
    a, b = view.values[one], view.values[other]
    return a.mean is not None and b.mean is not None and a.mean != b.mean


def _range(view: ProgramView, index: int) -> tuple[float, float]:
    value = view.values[index]
    return value.smallest or 0.0, value.largest or 0.0


def _widest(ranges: Iterator[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*ranges, strict=True)
    return min(lows), max(highs)
