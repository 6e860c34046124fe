"""DAT124 noise-drowns-input: random noise that is added to the input is many times larger than the input.

What it sees
------------
In recorded training steps, fresh random numbers are added to data on the way into a model, and their range is more than
ten times that of the data.

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
Not reported: noise that is also a target (diffusion), noise without data (generators), and smaller noise.
"""

from collections import Counter
from typing import Final

from trueloop.event import Place, StepProgram
from trueloop.rules.program_view import RANDOM, ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["NoiseDrownsInput"]

RATIO: Final = 10.0
PROGRAMS: Final = 2
_ADDS: Final = frozenset({"add", "__add__", "__radd__", "__iadd__", "add_"})
_SCALES: Final = frozenset({"mul", "__mul__", "__rmul__", "mul_"})


class NoiseDrownsInput(Rule, code="DAT124", severity=Severity.WARNING):
    not_applicable = "no random numbers were added to data in a recorded step"

    def __init__(self) -> None:
        self._seen: Counter[Place | None] = Counter()

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        entering = {index for use in event.models for given in use.inputs for index in view.behind(given)}
        for operation in event.operations:
            if operation.name not in _ADDS or len(operation.inputs) != 2 or operation.outputs[0] not in entering:
                continue
            for data, noise in (operation.inputs, operation.inputs[::-1]):
                ranges = [_range(view, index) for index in (data, noise)]
                if not _is_fresh_noise(view, noise) or data in view.learned or _is_fresh_noise(view, data):
                    continue
                if view.values[data].grad:
                    continue  # it is trained: a prompt, an adversarial perturbation
                if None in ranges or not ranges[0] or ranges[1] < RATIO * ranges[0]:  # type: ignore[operator]
                    continue
                self._seen[operation.place] += 1
                if self._seen[operation.place] == PROGRAMS:
                    yield self.finding(
                        event,
                        f"Noise with a range of {ranges[1]:.3g} is added to inputs with a range of {ranges[0]:.3g}.",
                        fix="Scale the noise to the data: a tenth of its standard deviation, for a start.",
                        evidence={"input_range": ranges[0], "noise_range": ranges[1]},
                        place=operation.place,
                    )


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
        if maker.name not in _SCALES or not maker.inputs:
            return False
        value = next((index for index in maker.inputs if view.maker(index) is not None), maker.inputs[0])
    return False
