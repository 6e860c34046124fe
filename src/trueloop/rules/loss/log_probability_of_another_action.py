"""LOS147 log-probability-of-another-action: the action that is scored was drawn a second time, and is never taken.

What it sees
------------
In recorded training steps, two actions are drawn from one output of a model. The first leaves PyTorch (`.item()`,
`.numpy()`), so it is the one that the environment gets. The second is used for a log-probability and for nothing else.

Why it hurts
------------
A policy gradient weights the log-probability of an action by what this action earned. A second draw earned nothing: the
weight does not depend on it, and the expected gradient is zero. The policy follows noise.

Evidence
--------
The number of such pairs in a recorded step, the line that draws the action taken and the line that draws the other.

Use instead
-----------
    action = policy.sample()                       # drawn once
    log_probability = policy.log_prob(action)      # of the same action
    state, reward, done = environment.step(action.item())

When it is fine
---------------
Not reported: second draws that are used for anything else (a critic evaluates them, the environment gets them), an
action taken that is scored too (an estimate of the entropy beside it), stored actions (PPO), and continuous ones.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import CLASS_LOSSES, PICKS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["LogProbabilityOfAnotherAction"]

SAMPLED: Final = 2  # recorded steps that must show it
MOST: Final = 400  # uses to follow
_LEAVING: Final = frozenset({"item", "tolist", "numpy", "__int__", "__index__", "__array__"})
_SCORING: Final = CLASS_LOSSES | PICKS | {"gather", "take_along_dim"}


class LogProbabilityOfAnotherAction(Rule, code="LOS147", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        draws: dict[frozenset[int], list[tuple[Operation, frozenset[str]]]] = {}
        for operation in view.operations:
            if operation.name == "multinomial" and operation.outputs and operation.inputs:
                outputs = view.predictions.intersection(view.behind(operation.inputs[0]))
                draws.setdefault(outputs, []).append((operation, _uses(view, operation.outputs[0], outputs)))
        pairs = [pair for outputs, made in draws.items() if outputs and (pair := _pair(made)) is not None]
        if not pairs or len(pairs) < sum(len(made) > 1 for made in draws.values()):
            return
        taken, scored = pairs[0]
        if self.count(scored.place) != SAMPLED:
            return
        yield self.finding(
            event,
            f"The action whose log-probability is trained is drawn a second time; the one that is taken was drawn"
            f"{on_line(taken.place, scored.place) or ' before'}.",
            fix="Draw once: `action = policy.sample()`, and use it for `log_prob(action)` and for the environment.",
            evidence={"pairs": len(pairs), "taken": taken.place, "sampled_steps": SAMPLED},
            place=scored.place,
        )


def _pair(made: list[tuple[Operation, frozenset[str]]]) -> tuple[Operation, Operation] | None:
    """Of two draws: the one that only leaves, and the one that is only scored."""
    if len(made) != 2:
        return None
    (one, uses), (other, other_uses) = made
    if uses == {"scored"} and other_uses == {"leaves"}:
        return other, one
    return (one, other) if uses == {"leaves"} and other_uses == {"scored"} else None


def _uses(view: ProgramView, draw: int, outputs: frozenset[int]) -> frozenset[str]:
    """What the indices that were drawn are used for: leaves, scored, other."""
    found: list[str] = []
    waiting, seen = [draw], {draw}
    while waiting and len(seen) < MOST:
        value = waiting.pop()
        for operation in view.readers.get(value, []):
            use = _use(view, operation, value, outputs)
            if use:
                found.append(use)
            else:
                copies = [i for i in operation.outputs if view.values[i].dtype == "int64" and i not in seen]
                waiting += copies
                seen.update(copies)
    once = found.count("scored") <= 1  # more often: it also selects values of actions
    return frozenset(found if once and len(seen) < MOST else ("other",))


def _use(view: ProgramView, operation: Operation, value: int, outputs: frozenset[int]) -> str:
    """Empty: a copy of the indices, or a check of a library."""
    if operation.name in _LEAVING:
        return "leaves"
    if operation.name in _SCORING and value in operation.inputs[1:] and operation.inputs[0] in view.learned:
        source = operation.inputs[0]
        own = view.values[source].grad and view.predictions.intersection(view.behind(source)) == outputs
        return "scored" if own and view.on_loss_path.intersection(operation.outputs) else "other"
    types = {view.values[index].dtype for index in operation.outputs}
    if not types or "int64" in types or (types == {"bool"} and not operation.direct):
        return ""
    return "other"
