"""LOS146 uniform-noise-as-target: the model is trained on uniform noise, and sampling starts from normal noise.

What it sees
------------
In recorded training steps, numbers that were drawn uniformly (`torch.rand`, `rand_like`, `uniform_`) are added to data
to make the input of a model, and are its target: a denoiser. In a recorded evaluation, a model is called first with
plain normal noise of the same shape, and nothing uniform of that shape is drawn.

Why it hurts
------------
Uniform noise has a mean of 0.5 and a standard deviation of 0.29. The model learns to remove that noise; the sampler
gives it noise with a mean of 0 and a deviation of 1, which it has never seen. The loss falls; the samples are wrong.

Evidence
--------
The shape, the line that draws the noise in training and the line that draws it in evaluation.

Use instead
-----------
    noise = torch.randn_like(x0)                # normal, as in the sampler
    loss = F.mse_loss(model(add_noise(x0, noise, t), t), noise)

When it is fine
---------------
Not reported: sampling that starts from uniform noise as well, uniform draws that are not the target (masks, times,
augmentation), parameters of a simulation that are drawn and predicted, and evaluations that begin with data.
"""

from typing import Final

from trueloop.event import RunEnded, StepProgram
from trueloop.event.operation_names import DIFFERENCES, DISTANCE_LOSSES, NORMAL, PRODUCTS, UNIFORM, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, path_and_line

__all__ = ["UniformNoiseAsTarget"]

SAMPLED: Final = 2  # steps that must show it
_DIFFERENCES: Final = DIFFERENCES | DISTANCE_LOSSES
_SCALES: Final = VIEWS | PRODUCTS


class UniformNoiseAsTarget(Rule, code="LOS146", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._trained: dict[tuple[int, ...], list[tuple[StepProgram, int]]] = {}  # by the shape of a sample
        self._sampled: dict[tuple[int, ...], tuple[StepProgram, int]] = {}
        self._uniform: set[tuple[int, ...]] = set()  # shapes of uniform draws in evaluations

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        if event.phase == "training" and event.losses and event.complete:
            draw = _uniform_target(view)
            if draw is not None:
                self._trained.setdefault(view.values[draw].shape[1:], []).append((event, draw))
        elif event.phase == "evaluation" and event.models:
            made = {o.outputs[0] for o in event.operations if o.name in UNIFORM and o.outputs}
            self._uniform |= {view.values[index].shape[1:] for index in made}
            draw = next((d for given in event.models[0].inputs if (d := _plain_draw(view, given)) is not None), None)
            if draw is not None and view.values[draw].shape:
                self._sampled.setdefault(view.values[draw].shape[1:], (event, draw))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for shape, steps in self._trained.items():
            if len(steps) < SAMPLED or shape in self._uniform or shape not in self._sampled:
                continue
            event, draw = steps[-1]
            sampling, start = self._sampled[shape]
            there = ProgramView(sampling).place_of(start)
            yield self.finding(
                event,
                f"The noise {list(event.values[draw].shape)} that the model learns to predict is drawn uniformly; "
                f"sampling starts from normal noise ({path_and_line(there)}).",
                fix="Draw normal noise in training: `torch.randn_like(x0)`.",
                evidence={"shape": list(event.values[draw].shape), "mean": event.values[draw].mean, "sampling": there,
                          "sampled_steps": len(steps)},
                place=ProgramView(event).place_of(draw) or event.place,
            )  # fmt: skip


def _uniform_target(view: ProgramView) -> int | None:
    """A uniform draw that a prediction is compared with and that was added to data of its shape."""
    for operation in view.operations:
        if operation.name not in _DIFFERENCES or len(operation.inputs) < 2 or view.in_model(operation):
            continue
        one, other = operation.inputs[:2]
        if (one in view.learned) == (other in view.learned) or operation.outputs[0] not in view.on_loss_path:
            continue
        draw = _draw(view, other if one in view.learned else one, UNIFORM)
        if draw is not None and len(view.values[draw].shape) > 1 and _is_added_to_data(view, draw):
            return draw
    return None


def _plain_draw(view: ProgramView, value: int) -> int | None:
    return _draw(view, value, NORMAL) if len(view.values[value].shape) > 1 else None


def _draw(view: ProgramView, value: int, names: frozenset[str]) -> int | None:
    """The draw that a value is, perhaps scaled."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None:
            return None
        if maker.name in names:
            return value
        if maker.name not in _SCALES or not maker.inputs or len(maker.inputs) > 1:
            return None
        value = maker.inputs[0]
    return None


def _is_added_to_data(view: ProgramView, draw: int) -> bool:
    """The draw is behind an input of a trained model that has data of the same shape behind it too."""
    shape = view.values[draw].shape
    for use in view.program.models:
        for given in use.inputs if use.grad else ():
            behind = view.contents(given)
            data = [i for i in behind if view.values[i].shape == shape and view.is_data(i)]
            if draw in behind and data:
                return True
    return False
