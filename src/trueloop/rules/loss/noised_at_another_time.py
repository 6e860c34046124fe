"""LOS151 noised-at-another-time: the model gets a time that is not the one at which its input was noised.

What it sees
------------
In recorded training steps the input of a model is data mixed with noise, by coefficients that depend on a time drawn
for each sample. A second input of the model is a time as well, drawn by the same call with the same range, but drawn
again. The first draw reaches the model only through the noised input.

Why it hurts
------------
The time tells the model how much of its input is noise. A time of a different sample says nothing, so the model learns
an average over all noise levels. Its loss falls; the sampler, which steps from level to level, does not work.

Evidence
--------
The line that draws the time of the noise, the line that draws the time of the model, and the number of recorded steps.

Use instead
-----------
    t = torch.randint(0, T, (len(x0),))
    noisy = add_noise(x0, noise, t)
    loss = F.mse_loss(model(noisy, t), noise)       # the same t

When it is fine
---------------
Not reported: outputs of a different shape than the input (a quantile that is drawn and predicted), models that also get
the time of the noise, models that get no time at all, labels that the data were made from, draws of different ranges,
and times that are computed from one draw (`t` and `t - 1`). What the model predicts does not matter: the noise, the
clean data, a velocity.
"""

from collections.abc import Iterator
from math import prod
from typing import Final

from trueloop.event import ModelUse, Operation, StepProgram
from trueloop.event.operation_names import NORMAL, RANDOM
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line, path_and_line

__all__ = ["NoisedAtAnotherTime"]

SAMPLED: Final = 2  # recorded steps that must show it
LEAST: Final = 8  # samples of a batch
_TIMES: Final = frozenset({"randint", "rand"})


class NoisedAtAnotherTime(Rule, code="LOS151", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for use in event.models:
            pair = _times(view, use) if use.grad and len(use.inputs) > 1 else None
            if pair is None or self.count(use.place) != SAMPLED:
                continue
            noised, given = pair
            yield self.finding(
                event,
                f"The input of `{use.name}` is noised at times drawn{on_line(noised.place, use.place)}; the times that "
                f"it is given are a second draw{on_line(given.place, use.place)}.",
                fix="Draw the times once, and use the same tensor for the noise and for the model.",
                evidence={"noised": path_and_line(noised.place), "given": path_and_line(given.place),
                          "samples": event.values[given.outputs[0]].shape[0], "recorded_steps": SAMPLED},
                place=use.place,
            )  # fmt: skip


def _times(view: ProgramView, use: ModelUse) -> tuple[Operation, Operation] | None:
    """The draw of the times in the noised input of a call, and the draw that the model got as times instead."""
    behind = [_draws(view, index) for index in use.inputs]
    outputs = {view.values[index].shape for index in use.outputs}  # a denoiser's are like its input
    likely = [i for i, index in enumerate(use.inputs) if view.values[index].shape in outputs]
    noised = [i for i in likely if _is_noised(view, use.inputs[i], behind[i])]
    if len(noised) != 1:
        return None
    samples = view.values[use.inputs[noised[0]]].shape[0]
    inside = [o for o in behind[noised[0]] if _is_a_time(view, o, samples)]
    others = [o for i, draws in enumerate(behind) if i != noised[0] for o in draws if _is_a_time(view, o, samples)]
    pairs = [(one, other) for one in inside for other in others if _same_call(one, other)]
    if len(pairs) != 1 or pairs[0][0] is pairs[0][1]:
        return None  # several: one of them may be the time that both have
    return pairs[0]


def _draws(view: ProgramView, value: int) -> list[Operation]:
    """The random draws that a value was computed from, outside of models."""
    return [maker for maker in _makers(view, value) if maker.name in RANDOM and maker.outputs]


def _makers(view: ProgramView, value: int) -> Iterator[Operation]:
    for index in view.contents(value):
        maker = view.maker(index)
        if maker is not None and maker.model < 0:
            yield maker


def _is_noised(view: ProgramView, value: int, draws: list[Operation]) -> bool:
    """Data of the same shape, and a normal draw of it, are behind the value."""
    shape = view.values[value].shape
    noise = any(o.name in NORMAL and view.values[o.outputs[0]].shape == shape for o in draws)
    data = any(view.values[i].shape == shape and view.is_data(i) for i in view.contents(value))
    return len(shape) > 1 and noise and data


def _is_a_time(view: ProgramView, operation: Operation, samples: int) -> bool:
    """One uniform number for each sample."""
    shape = view.values[operation.outputs[0]].shape
    return operation.name in _TIMES and prod(shape) == samples >= LEAST and shape[0] == samples


def _same_call(one: Operation, other: Operation) -> bool:
    """The same function with the same range and shape."""
    return one.name == other.name and one.options == other.options
