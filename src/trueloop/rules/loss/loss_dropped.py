"""LOS115 loss-dropped: several losses are computed in a step, and only the last one is trained.

What it sees
------------
In a recorded training step, one line computes a loss several times, with a graph, and only the result of the last time
is part of what backward is called on.

Why it hurts
------------
`loss = ...` in a loop over heads, horizons or tasks replaces the loss of the one before. Everything but the last is
computed and thrown away: those outputs are never trained.

Evidence
--------
How many losses the line computed, and how many reached backward.

Use instead
-----------
    loss = 0
    for head in heads:
        loss = loss + criterion(head(x), y)

When it is fine
---------------
Not reported: losses that are only measured (without a graph), and lines of which at least two results are used.
"""

from collections import Counter
from typing import Final

from trueloop.event import Place, StepProgram
from trueloop.rules.program_view import LOSSES, ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LossDropped"]

LEAST: Final = 2
PROGRAMS: Final = 2  # recorded steps that must agree


class LossDropped(Rule, code="LOS115", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._seen: Counter[Place | None] = Counter()

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or len(set(event.losses)) != 1:
            return
        view = ProgramView(event)
        made: dict[Place | None, list[int]] = {}
        for operation in event.operations:
            if operation.name in LOSSES and operation.model < 0 and operation.outputs:
                value = view.values[operation.outputs[0]]
                if value.grad and value.shape == ():
                    made.setdefault(operation.place, []).append(operation.outputs[0])
        for place, results in made.items():
            used = [result for result in results if result in view.on_loss_path]
            if len(results) < LEAST or used != results[-1:]:
                continue
            self._seen[place] += 1
            if self._seen[place] >= PROGRAMS:
                yield self.finding(
                    event,
                    f"This line computes {len(results)} losses in a step and only the last one reaches backward: the "
                    f"other {len(results) - 1} are not trained.",
                    fix="Add the losses up (`total = total + loss`), and call backward on the sum.",
                    evidence={"computed": len(results), "used": len(used)},
                    place=place,
                )
