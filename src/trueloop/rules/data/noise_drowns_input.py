"""DAT124 noise-drowns-input: random noise that is added to the input is many times larger than the input.

What it sees
------------
In recorded training steps, fresh random numbers are added to data on the way into a model, and their range is more than
ten times that of the data; or normal noise has 1.5 times the largest standard deviation that numbers in the range of
the data can have, and the model is evaluated without noise.

Why it hurts
------------
The model sees noise. A noise level that was meant for pixels of 0 to 255, on images of 0 to 1, leaves nothing of them.

Evidence
--------
The ranges of the data and of the noise.

Use instead
-----------
    x = x + 0.1 * x.std() * torch.randn_like(x)

When it is fine
---------------
Not reported: noise that is also a target (diffusion), noise without data (generators), and smaller noise; below ten
times also denoisers, whose targets are the clean data, noise of several levels, and models that are evaluated with
noise.
"""

from collections import Counter
from math import log, prod, sqrt
from typing import Final

from trueloop.event import Place, RunEnded, StepProgram
from trueloop.event.operation_names import ANY_ADDITION, ANY_PRODUCT, LOSSES, NORMAL, RANDOM
from trueloop.finding import Finding
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["NoiseDrownsInput"]

RATIO: Final = 10.0
DROWNS: Final = 1.5  # deviation of noise, of the largest that numbers in the range of the data can have
CLEAN: Final = 1.5  # range of evaluated inputs, of that of the data
LEAST: Final = 100  # numbers
PROGRAMS: Final = 2


class NoiseDrownsInput(Rule, code="DAT124", severity=Severity.WARNING):
    not_applicable = "no random numbers were added to data in a recorded step"

    def __init__(self) -> None:
        self._seen: Counter[Place | None] = Counter()
        self._large: dict[Place | None, tuple[StepProgram, float, float]] = {}
        """Noise that is larger than the data, but not many times."""
        self._evaluated: dict[int, float] = {}  # the largest range of the inputs of each model

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        if event.phase != "training":
            for use in (use for use in event.models if not use.grad and not use.training):
                known = [i for i in use.inputs if i < len(event.values) and event.values[i].origin != "parameter"]
                found = max((_range(view, index) or 0.0 for index in known), default=0.0)
                self._evaluated[use.model] = max(found, self._evaluated.get(use.model, 0.0))
            return
        entering = {index for use in event.models for given in use.inputs for index in view.behind(given)}
        wanted = {index for use in _losses(view) for index in (use, *view.behind(use))}
        for operation in event.operations:
            if operation.name not in ANY_ADDITION or len(operation.inputs) != 2 or operation.outputs[0] not in entering:
                continue
            for data, noise in (operation.inputs, operation.inputs[::-1]):
                ranges = [_range(view, index) for index in (data, noise)]
                if not _is_fresh_noise(view, noise) or data in view.learned or _is_fresh_noise(view, data):
                    continue
                if view.values[data].grad:
                    continue  # it is trained: a prompt, an adversarial perturbation
                if ranges[0] is None or ranges[1] is None or not ranges[0]:
                    continue
                if ranges[1] < RATIO * ranges[0]:
                    if _deviation(view, noise) >= DROWNS * ranges[0] / 2 and data not in wanted:
                        self._large[operation.place] = (event, ranges[0], ranges[1])
                    continue
                self._seen[operation.place] += 1
                if self._seen[operation.place] == PROGRAMS:
                    yield self._found(event, operation.place, ranges[0], ranges[1])

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, (event, data, noise) in self._large.items():
            evaluated = [self._evaluated.get(use.model, 0.0) for use in event.models]
            if self._seen[place] < PROGRAMS and evaluated and all(0 < found <= CLEAN * data for found in evaluated):
                yield self._found(event, place, data, noise)

    def _found(self, event: StepProgram, place: Place | None, data: float, noise: float) -> Finding:
        return self.finding(
            event,
            f"Noise with a range of {noise:.3g} is added to inputs with a range of {data:.3g}.",
            fix="Scale the noise to the data: a tenth of its standard deviation, for a start.",
            evidence={"input_range": data, "noise_range": noise},
            place=place,
        )


def _losses(view: ProgramView) -> list[int]:
    """What outputs are compared with: clean data may be what a denoiser is asked for."""
    return [index for operation in view.operations if operation.name in LOSSES for index in operation.inputs[1:]]


def _deviation(view: ProgramView, noise: int) -> float:
    """The standard deviation of normal noise, from its range; 0: it has several levels, or another distribution."""
    value = view.values[noise]
    extent, count = _range(view, noise), prod(value.shape)
    for _ in range(4):
        maker = view.maker(noise)
        if maker is None or maker.name in RANDOM:
            break
        if any(view.maker(index) is None and not view.values[index].constant for index in maker.inputs):
            return 0.0
        noise = next((index for index in maker.inputs if view.maker(index) is not None), maker.inputs[0])
    if maker is None or maker.name not in NORMAL or extent is None or count < LEAST:
        return 0.0
    return extent / (2 * sqrt(2 * log(count)))


def _range(view: ProgramView, index: int) -> float | None:
    value = view.values[index]
    return None if value.smallest is None or value.largest is None else value.largest - value.smallest


def _is_fresh_noise(view: ProgramView, value: int) -> bool:
    """Random numbers, perhaps scaled, that nothing else reads."""
    for _ in range(4):
        maker = view.maker(value)
        if maker is None:
            return False
        if maker.name in RANDOM:
            return len(view.readers.get(value, [])) <= 1
        if maker.name not in ANY_PRODUCT or not maker.inputs:
            return False
        value = next((index for index in maker.inputs if view.maker(index) is not None), maker.inputs[0])
    return False
