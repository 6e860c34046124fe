"""DAT165 same-noise-every-step: the random numbers that a step adds to its data are the same in every step.

What it sees
------------
In all recorded training steps, one line draws random numbers that are added to data, multiplied with them or mixed into
them, and the numbers are the same each time: their shape, smallest, largest and mean agree.

Why it hurts
------------
A generator that is seeded again in every call gives one fixed pattern. A denoiser learns to subtract this pattern, an
augmentation makes one copy of each sample, a variational model has no noise at all; on fresh noise the model fails.

Evidence
--------
The shape of the draw, the recorded steps, and the numbers in which they agree.

Use instead
-----------
    generator = torch.Generator().manual_seed(123)            # once, before the training
    noisy = x + 0.3 * torch.randn(x.shape, generator=generator)

When it is fine
---------------
Not reported: draws of fewer than 16 numbers, whole numbers, draws that are used as a matrix (random features), and
draws that do not reach the loss.
"""

from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import ELEMENTWISE, NORMAL, UNIFORM, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["SameNoiseEveryStep"]

STEPS: Final = 3  # recorded steps in which the numbers agree
LEAST: Final = 16  # numbers: their smallest, largest and mean do not agree by chance

_Draw = tuple[tuple[int, ...], float | None, float | None, float | None]


class SameNoiseEveryStep(Rule, code="DAT165", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    explained_by = ("workers-share-a-seed",)

    def __init__(self) -> None:
        self._draws: dict[tuple[Place, int], list[_Draw]] = {}
        """By line, and the how-manieth draw of that line in its step."""

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.complete:
            return
        view, counts = ProgramView(event), dict[Place, int]()
        for operation in view.operations:
            place = operation.place
            if place is None or operation.name not in NORMAL | UNIFORM or not operation.outputs:
                continue
            counts[place] = counts.get(place, 0) + 1
            value = view.value(operation.outputs[0])
            draws = self._draws.setdefault((place, counts[place]), [])
            draws.append((value.shape, value.smallest, value.largest, value.mean))
            size = 1
            for extent in value.shape:
                size *= extent
            if size < LEAST or value.mean is None or not _changes_data(view, operation):
                draws.clear()
            elif len(draws) == STEPS and len(set(draws)) == 1 and self.count(place) == 1:
                yield self.finding(
                    event,
                    f"`{operation.name}` draws the same {size:,} numbers in all {plural(STEPS, 'recorded step')} "
                    f"(mean {value.mean:.4g} each time): the noise is one fixed pattern.",
                    fix="Seed the generator once, before the training, not where the numbers are drawn.",
                    evidence={"function": operation.name, "shape": list(value.shape), "recorded_steps": STEPS,
                              "mean": value.mean, "smallest": value.smallest, "largest": value.largest},
                    place=place,
                )  # fmt: skip


def _changes_data(view: ProgramView, draw: Operation) -> bool:
    """It meets values that depend on data, number by number, on the way to a loss."""
    waiting, seen = [draw.outputs[0]], {draw.outputs[0]}
    while waiting:
        value = waiting.pop()
        for reader in view.readers.get(value, []):
            others = [index for index in reader.inputs if index not in seen]
            if reader.name in ELEMENTWISE and any(index in view.from_data for index in others):
                return any(output in view.on_loss_path for output in reader.outputs)
            if reader.name in VIEWS or reader.name in ELEMENTWISE:
                new = [output for output in reader.outputs if output not in seen]
                seen.update(new)
                waiting += new
    return False
