"""LOS122 target-is-unrelated-noise: the prediction is compared with noise that never entered the model.

What it sees
------------
In a recorded training step the prediction is compared element by element with numbers that were only just drawn, and
that are used for nothing else. The input of the model has noise of the same shape added to data, but from another draw.

Why it hurts
------------
Nothing in the input tells what this noise is. The best the model can do is to predict its mean, zero: a denoiser that
learns this removes nothing, and the loss stays at the variance of the noise.

Evidence
--------
The shape, the line that draws the target, and the line that draws the noise of the input.

Use instead
-----------
    noise = torch.randn_like(x0)
    noisy = a * x0 + b * noise          # the same draw here ...
    loss = F.mse_loss(model(noisy, t), noise)   # ... and here

When it is fine
---------------
Not reported: targets that contain data (a second noisy view of an image), draws that reach the model by any way, models
whose inputs are random as well (benchmarks), and samples of a prior that are compared as sets (MMD, sorted, distances).
"""

from math import prod
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import DIFFERENCES, DISTANCE_LOSSES, NEGATIONS, NORMAL, SCALINGS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["TargetIsUnrelatedNoise"]

LEAST: Final = 16  # elements
SAMPLED: Final = 2  # steps that must show it
_DIFFERENCES: Final = DIFFERENCES | DISTANCE_LOSSES
_SCALES: Final = VIEWS | SCALINGS | NEGATIONS


class TargetIsUnrelatedNoise(Rule, code="LOS122", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _DIFFERENCES or len(operation.inputs) < 2 or view.in_model(operation):
                continue
            target = _unrelated(view, operation)
            source = None if target is None else _noise_of_input(view, target)
            if target is None or source is None or self.count(operation.place) != SAMPLED:
                continue
            drawn, other = view.maker(target), view.maker(source)
            where = on_line(drawn.place, operation.place) if drawn is not None else ""
            there = on_line(other.place, operation.place) if other is not None else ""
            yield self.finding(
                event,
                f"The target {list(view.values[target].shape)} is noise drawn{where}, which does not enter the model. "
                f"The noise in its input is another draw{there}.",
                fix="Draw the noise once, and use the same tensor for the input and for the target.",
                evidence={"shape": list(view.values[target].shape), "sampled_steps": SAMPLED},
                place=operation.place if drawn is None else drawn.place,
            )


def _unrelated(view: ProgramView, operation: Operation) -> int | None:
    """A draw that is compared with a prediction here and used for nothing else."""
    one, other = operation.inputs[:2]
    if (one in view.learned) == (other in view.learned) or operation.outputs[0] not in view.on_loss_path:
        return None
    prediction, target = (one, other) if one in view.learned else (other, one)
    shape = view.values[target].shape
    if view.values[prediction].shape != shape or not view.values[prediction].grad or len(shape) < 2:
        return None
    value = target
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or prod(shape) < LEAST or [o for o in view.readers[value] if o.outputs] != [operation]:
            return None
        if maker.name in NORMAL:
            return value
        if maker.name not in _SCALES or not maker.inputs or len(maker.inputs) > 1:
            return None
        value, operation = maker.inputs[0], maker
    return None


def _noise_of_input(view: ProgramView, target: int) -> int | None:
    """Another draw of the same shape, behind an input of a model that has data of that shape behind it as well."""
    shape = view.values[target].shape
    for use in view.program.models:
        for given in use.inputs if use.grad else ():
            behind = [index for index in view.contents(given) if view.values[index].shape == shape]
            draws = [index for index in behind if (m := view.maker(index)) is not None and m.name in NORMAL]
            data = [index for index in behind if view.is_data(index)]
            if draws and data and target not in draws:
                return draws[0]
    return None
