"""LOS148 sample-differentiated-in-log-prob: the gradient of the log-probability cancels through the sample itself.

What it sees
------------
In recorded training steps an action is drawn with its graph (`rsample()`, or `mean + std * noise`) and used for nothing
in the loss but the log-probability under the same distribution.

Why it hurts
------------
A sample moves with its mean. The log-probability of `mean + std * noise` does not depend on the mean at all: the
gradient through the sample cancels the one through the distribution exactly. The mean of the policy never learns, and
the deviation is pushed by noise.

Evidence
--------
The line that draws the sample, the line that subtracts the mean, and the number of recorded steps that show it.

Use instead
-----------
    action = dist.sample()                 # or rsample().detach()
    loss = -(advantage * dist.log_prob(action)).mean()

When it is fine
---------------
Not reported: samples that also reach the loss another way (a critic evaluates them, a decoder reads them, as in soft
actor-critic and variational models), samples that are detached, and samples that are squashed before they are scored.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ADDITIONS, DIFFERENCES, JOINS, NORMAL, PRODUCTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["SampleDifferentiatedInLogProb"]

SAMPLED: Final = 2  # recorded steps that must show it
MOST: Final = 12  # operations from the noise to the sample
_COPIES: Final = JOINS | {
    "squeeze", "unsqueeze", "view", "reshape", "contiguous", "clone", "to", "float", "expand", "expand_as", "stack",
}  # fmt: skip


class SampleDifferentiatedInLogProb(Rule, code="LOS148", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for operation in view.operations:
            drawn = _sample(view, operation)
            scored = None if drawn is None else _only_scored(view, *drawn)
            if drawn is None or scored is None or self.count(operation.place) != SAMPLED:
                continue
            yield self.finding(
                event,
                f"The sample {list(view.values[drawn[0]].shape)} keeps its graph and is used only for its own "
                f"log-probability{on_line(scored.place, operation.place)}: its gradient to the mean cancels exactly.",
                fix="Draw with `dist.sample()`, or score `action.detach()`.",
                evidence={"sample": operation.place, "scored": scored.place, "sampled_steps": SAMPLED},
                place=operation.place,
            )


def _sample(view: ProgramView, operation: Operation) -> tuple[int, int] | None:
    """`mean + deviation * noise` with a graph: the sample and its mean."""
    if operation.name not in ADDITIONS or len(operation.inputs) != 2 or not operation.outputs:
        return None
    for mean, spread in (operation.inputs, operation.inputs[::-1]):
        maker = view.maker(spread)
        if maker is None or maker.name not in PRODUCTS or not view.values[mean].grad:
            continue
        if any(_is_noise(view, index) for index in maker.inputs) and mean in view.learned:
            return operation.outputs[0], mean
    return None


def _is_noise(view: ProgramView, index: int) -> bool:
    maker = view.maker(view.through_views(index))
    return maker is not None and maker.name in NORMAL and not view.values[index].grad


def _only_scored(view: ProgramView, sample: int, mean: int) -> Operation | None:
    """The difference of the sample and its mean, if the loss depends on the sample through nothing else."""
    found: list[Operation] = []
    root = view.through_views(mean)
    waiting, seen = [sample], {sample}
    while waiting:
        for operation in view.readers.get(waiting.pop(), []):
            outputs = [i for i in operation.outputs if view.values[i].grad and i in view.on_loss_path]
            if not outputs:
                continue
            other = [view.through_views(i) for i in operation.inputs if i not in seen]
            if operation.name in DIFFERENCES and len(operation.inputs) == 2 and other == [root]:
                found.append(operation)
            elif operation.name in _COPIES and len(seen) < MOST and not other:
                waiting += [i for i in outputs if i not in seen]
                seen.update(outputs)
            else:
                return None
    return found[0] if found else None
