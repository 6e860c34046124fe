"""LOS117 loss-term-dominates: one term of the loss is thousands of times larger than another.

What it sees
------------
In all recorded training steps the loss adds two terms that both have gradients, and one of them is more than a thousand
times the other.

Why it hurts
------------
The optimizer sees the large term only. The small one is computed, printed and not learned: a target in milliseconds
beside one in seconds, a term that is summed beside one that is averaged, a weight with a wrong exponent.

Evidence
--------
The values of both terms in each recorded step.

Use instead
-----------
Bring the terms to one scale: normalize the targets, or give the large term a weight.

    loss = classification + 0.001 * duration

When it is fine
---------------
Not reported: penalties on weights (they do not depend on data), and terms whose ratio falls below a thousand in any
recorded step.
"""

from collections import defaultdict
from typing import Final

from trueloop.event import Place, RunEnded, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LossTermDominates"]

RATIO: Final = 1000.0
PROGRAMS: Final = 3
_SUMS: Final = frozenset({"add", "__add__", "__radd__", "__iadd__"})


class LossTermDominates(Rule, code="LOS117", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    explained_by = ("mean-and-sum-mixed",)

    def __init__(self) -> None:
        self._pairs: dict[Place | None, list[tuple[float, float]]] = defaultdict(list)
        self._event: StepProgram | None = None

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _SUMS or len(operation.inputs) != 2 or operation.model >= 0:
                continue
            terms = [view.values[index] for index in operation.inputs]
            if operation.outputs[0] not in view.on_loss_path or any(t.shape != () or not t.grad for t in terms):
                continue
            if any(index not in view.from_data for index in operation.inputs):
                continue
            numbers = [abs(term.mean) for term in terms if term.mean is not None]
            if len(numbers) == 2:
                self._event = event
                self._pairs[operation.place].append((max(numbers), min(numbers)))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, pairs in self._pairs.items():
            if len(pairs) < PROGRAMS or any(large < RATIO * small for large, small in pairs) or self._event is None:
                continue
            large, small = pairs[-1]
            if small == 0:
                continue
            yield self.finding(
                self._event,
                f"One term of the loss is {large:.4g} and the other {small:.4g}, in all {len(pairs)} recorded steps: "
                "only the large one is learned.",
                fix="Bring the terms to one scale: normalize the targets of the large one, or weight it.",
                evidence={"large": [round(a, 6) for a, _ in pairs], "small": [round(b, 6) for _, b in pairs]},
                place=place,
            )
