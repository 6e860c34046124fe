"""LOS173 policy-ratio-always-one: the old policy is the policy itself, so their ratio is 1 and nothing is ever clipped.

What it sees
------------
Recorded training steps compute `exp(new - old)` of log-probabilities. Both come from one model and equal inputs, the
old ones from a call without gradients in the same step, and every ratio is exactly 1. Several steps use the same states
and actions, so the weights have moved since these were recorded.

Why it hurts
------------
The ratio measures how far the policy has moved from the one that acted. If it is always 1, clipping never acts: further
epochs on the same data push the policy without a limit, with gradients that are right only for the first of them.

Evidence
--------
The line of the ratio, the number of ratios, and the line that calls the model for the old log-probabilities.

Use instead
-----------
    with torch.no_grad():
        old = log_prob(policy, states, actions)        # once, before the epochs over the data
    for _ in range(epochs):
        ratio = (log_prob(policy, states, actions) - old).exp()

When it is fine
---------------
Not reported: one step for each batch of actions, whose ratio is 1 by right; `log_prob - log_prob.detach()`; the first
epoch over the data; and minibatches that differ from step to step.
"""

from math import prod
from typing import Final

from trueloop.event import ModelUse, Operation, StepProgram
from trueloop.event.operation_names import RANDOM, SUBTRACTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["PolicyRatioAlwaysOne"]

LEAST: Final = 8  # ratios
SAMPLED: Final = 2  # recorded steps with the states and actions of an earlier one


class PolicyRatioAlwaysOne(Rule, code="LOS173", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._earlier: set[tuple[object, ...]] = set()

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name != "exp" or not operation.outputs or operation.place is None:
                continue
            value = view.values[operation.outputs[0]]
            if not value.constant or value.smallest != 1 or not value.grad or prod(value.shape) < LEAST:
                continue
            uses = _both_policies(view, operation)
            recorded = None if uses is None else _recorded(view, operation)
            if uses is None or recorded is None or operation.outputs[0] not in view.on_loss_path:
                continue
            key = (operation.place, *recorded)
            again = key in self._earlier
            self._earlier.add(key)
            if not again or self.count(operation.place) != SAMPLED:
                continue
            yield self.finding(
                event,
                f"All {prod(value.shape)} ratios are exactly 1, in several steps on the same states and actions: the "
                f"old log-probabilities are computed{on_line(uses[1].place, operation.place)} with the present weights "
                f"of `{uses[1].name}`.",
                fix="Compute the old log-probabilities once, before the epochs over the data, or with a copy: "
                "`old = copy.deepcopy(policy)`.",
                evidence={"ratios": prod(value.shape), "old": uses[1].place, "sampled_steps": SAMPLED},
                place=operation.place,
            )


def _both_policies(view: ProgramView, ratio: Operation) -> tuple[ModelUse, ModelUse] | None:
    """The calls of one model, on one input, that the new and the old log-probabilities come from."""
    difference = view.maker(view.through_views(ratio.inputs[0]))
    if difference is None or difference.name not in SUBTRACTIONS or len(difference.inputs) != 2:
        return None
    new, old = (
        [u for u in view.program.models if not set(view.behind(i)).isdisjoint(u.outputs)] for i in difference.inputs
    )
    if len(new) != 1 or len(old) != 1 or not new[0].grad or old[0].grad or new[0].model != old[0].model:
        return None
    given = [[view.through_views(index) for index in use.inputs] for use in (new[0], old[0])]
    return (new[0], old[0]) if given[0] == given[1] else None


def _recorded(view: ProgramView, ratio: Operation) -> tuple[object, ...] | None:
    """The numbers of states and actions, which were there before the step; None where some were drawn in it."""
    behind = list(view.behind(ratio.inputs[0]))
    if any((maker := view.maker(index)) is not None and maker.name in RANDOM for index in behind):
        return None
    given = [view.values[index] for index in sorted(behind) if view.values[index].origin in ("outside", "batch")]
    if not given or any(value.mean is None for value in given):
        return None
    return tuple((value.shape, value.smallest, value.largest, value.mean) for value in given)
