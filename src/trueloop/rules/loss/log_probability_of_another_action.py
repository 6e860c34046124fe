"""LOS147 log-probability-of-another-action: the action that is scored was drawn a second time, and is never taken.

What it sees
------------
In recorded training steps, two actions are drawn from one output of a model. The first leaves PyTorch (`.item()`,
`.numpy()`), so it is the one that the environment gets. The second is used for a log-probability and for nothing else.
Or all actions that a line draws are used for a log-probability and for nothing else, and the loss multiplies it by
numbers without a graph, some of them negative: an advantage, which these actions cannot have earned.
Of continuous actions (`Normal`): both are drawn for the same input of the model, and the log-probability of the second
is multiplied by what was computed from the first.

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
action taken that is scored too (an estimate of the entropy beside it), stored actions (PPO), and continuous ones that
an environment outside of PyTorch gets.
"""

from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import CLASS_LOSSES, DIFFERENCES, PICKS, PRODUCTS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, on_line

__all__ = ["LogProbabilityOfAnotherAction"]

SAMPLED: Final = 2  # recorded steps that must show it
MOST: Final = 400  # uses to follow
_LEAVING: Final = frozenset({"item", "tolist", "numpy", "__int__", "__index__", "__array__", "__dlpack__"})
_STORING: Final = frozenset({"__setitem__", "copy_", "index_copy_", "index_put_", "masked_scatter_"})
_TAKEN: Final = ({"leaves"}, {"leaves", "stored"})
_SCORING: Final = CLASS_LOSSES | PICKS | {"gather", "take_along_dim"}
_Draws = dict[frozenset[int], list[tuple[Operation, frozenset[str]]]]  # by the outputs that they are drawn from


class LogProbabilityOfAnotherAction(Rule, code="LOS147", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        yield from self._continuous(event, view)
        draws: _Draws = {}
        for operation in view.operations:
            if operation.name == "multinomial" and operation.outputs and operation.inputs:
                outputs = view.predictions.intersection(view.behind(operation.inputs[0]))
                draws.setdefault(outputs, []).append((operation, _uses(view, operation.outputs[0], outputs)))
        unused = self._unused(event, view, draws)
        if unused is not None:
            yield unused
            return
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

    def _unused(self, event: StepProgram, view: ProgramView, draws: _Draws) -> Finding | None:
        """All draws of a line are scored and used for nothing else, but what earned something weights the scores."""
        of_line: dict[Place | None, list[bool]] = {}
        for draw, uses in (each for made in draws.values() for each in made):
            learned = draw.inputs[0] in view.learned  # a forward may return a distribution, which hides its outputs
            scored = learned and uses == {"scored"} and _is_weighted(view, draw)
            of_line.setdefault(draw.place, []).append(scored)
        found = next((place for place, scored in of_line.items() if place is not None and all(scored)), None)
        if found is None or self.count(found) != SAMPLED:
            return None
        return self.finding(
            event,
            "The loss weights the log-probability of an action that is drawn here and used for nothing else: the "
            "weights come from other actions.",
            fix="Draw once: `action = policy.sample()`, and use it for `log_prob(action)` and for the environment.",
            evidence={"draws": len(of_line[found]), "sampled_steps": SAMPLED},
            place=found,
        )

    def _continuous(self, event: StepProgram, view: ProgramView) -> Findings:
        draws: dict[frozenset[int], list[Operation]] = {}
        for operation in view.operations:
            if operation.name == "normal" and operation.outputs and operation.inputs:
                draws.setdefault(_entering(view, operation), []).append(operation)
        pairs = [(draw, made) for inputs, made in draws.items() if inputs and len(made) == 2 for draw in made]
        found = []
        for scored, (first, second) in pairs:
            taken = second if scored is first else first
            score = _only_score(view, scored)
            if score is not None and _scores(view, taken) == [] and _weights(view, taken, scored):
                found.append((taken, score))
        if not found or len(found) < sum(len(made) > 1 for made in draws.values()):
            return
        taken, score = found[0]
        if self.count("continuous", score.place) != SAMPLED:
            return
        yield self.finding(
            event,
            f"The log-probability is that of an action which is drawn here a second time; the loss weights it by what "
            f"the action drawn before{on_line(taken.place, score.place)} led to.",
            fix="Draw once: `action = policy.sample()`, and use it for `log_prob(action)` and for the environment.",
            evidence={"pairs": len(found), "taken": taken.place, "sampled_steps": SAMPLED},
            place=score.place,
        )


def _entering(view: ProgramView, draw: Operation) -> frozenset[int]:
    """The inputs of the models that computed the parameters of a draw."""
    behind = {index for value in draw.inputs for index in view.behind(value)}
    near = [view.through_views(value) for value in draw.inputs]
    uses = [use for use in view.program.models if not behind.isdisjoint(use.outputs)]
    latest = [use for use in uses if not _passes_draw(view, near, use.outputs)]
    return frozenset(view.through_views(index) for use in latest for index in use.inputs)


def _passes_draw(view: ProgramView, near: list[int], outputs: tuple[int, ...]) -> bool:
    """Between the outputs of a model and these values lies another draw: it is of an earlier time step."""
    waiting, seen = list(near), set(near)
    while waiting:
        index = waiting.pop()
        if index in outputs:
            return False
        maker = view.maker(index)
        if maker is None or maker.name == "normal":
            continue
        waiting += [value for value in maker.inputs if value not in seen]
        seen.update(maker.inputs)
    return True


def _scores(view: ProgramView, draw: Operation) -> list[Operation]:
    """`value - mean` of log-probabilities: what a model computed is subtracted, on the way to a loss."""
    found, waiting, seen = [], [draw.outputs[0]], {draw.outputs[0]}
    while waiting:
        value = waiting.pop()
        for reader in view.readers.get(value, []):
            other = [index for index in reader.inputs if index != value]
            learned = bool(other) and other[0] in view.learned and view.values[other[0]].grad
            if reader.name in DIFFERENCES and learned and view.on_loss_path.intersection(reader.outputs):
                found.append(reader)
            elif reader.name in VIEWS:
                waiting += [index for index in reader.outputs if index not in seen]
                seen.update(reader.outputs)
    return found


def _only_score(view: ProgramView, draw: Operation) -> Operation | None:
    """The one score of a draw that nothing else reads, but for checks of a library."""
    scores = _scores(view, draw)
    for reader in view.readers.get(draw.outputs[0], []):
        types = {view.values[index].dtype for index in reader.outputs}
        if reader not in scores and reader.name not in VIEWS and not (types <= {"bool"} and not reader.direct):
            return None
    return scores[0] if len(scores) == 1 else None


def _weights(view: ProgramView, taken: Operation, scored: Operation) -> bool:
    """A product on the way to the loss has the score on one side, and on the other what the action taken led to."""
    of_taken, of_scored = ({draw.outputs[0]} for draw in (taken, scored))
    for operation in view.operations:
        for reached in (of_taken, of_scored):
            if not reached.isdisjoint(operation.inputs):
                reached.update(operation.outputs)
        trained = operation.name in PRODUCTS and view.on_loss_path.intersection(operation.outputs)
        if trained and len(operation.inputs) == 2:
            for one, other in (operation.inputs, operation.inputs[::-1]):
                if one in of_scored and other in of_taken and other not in of_scored:
                    return True
    return False


def _pair(made: list[tuple[Operation, frozenset[str]]]) -> tuple[Operation, Operation] | None:
    """Of two draws: the one that only leaves, and the one that is only scored."""
    if len(made) != 2:
        return None
    (one, uses), (other, other_uses) = made
    if uses == {"scored"} and other_uses in _TAKEN:
        return other, one
    return (one, other) if uses in _TAKEN and other_uses == {"scored"} else None


def _is_weighted(view: ProgramView, draw: Operation) -> bool:
    """On the way to the loss, the score is multiplied by numbers without a graph, some of them negative: no mask, and
    no weight of an entropy."""
    reached = {draw.outputs[0]}
    for operation in view.operations:
        if reached.isdisjoint(operation.inputs) or operation.name == "backward":
            continue
        reached.update(operation.outputs)
        if operation.name in PRODUCTS and view.on_loss_path.intersection(operation.outputs):
            others = [view.values[index] for index in operation.inputs if index not in reached]
            signed = [v for v in others if not v.grad and v.smallest is not None and v.largest is not None]
            if any(v.smallest < 0 < v.largest for v in signed):  # type: ignore[operator]
                return True
    return False


def _uses(view: ProgramView, draw: int, outputs: frozenset[int]) -> frozenset[str]:
    """What the indices that were drawn are used for: leaves, stored, scored, other."""
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
    if operation.name in _STORING and value in operation.inputs[1:]:
        return "stored"
    if operation.name in _SCORING and value in operation.inputs[1:] and operation.inputs[0] in view.learned:
        source = operation.inputs[0]
        own = view.values[source].grad and view.predictions.intersection(view.behind(source)) == outputs
        return "scored" if own and view.on_loss_path.intersection(operation.outputs) else "other"
    types = {view.values[index].dtype for index in operation.outputs}
    if not types or "int64" in types or (types == {"bool"} and not operation.direct):
        return ""
    return "other"
