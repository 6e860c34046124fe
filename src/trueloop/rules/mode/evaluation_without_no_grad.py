"""MOD103 evaluation-without-no-grad: an evaluation builds autograd graphs that are never used.

What it sees
------------
Two or more consecutive calls of a model, without a backward in between, that built autograd graphs which were freed
without any backward, while the model was in eval mode, or while losses or decisions were computed from its outputs.

Why it hurts
------------
Each evaluation batch keeps every activation until the batch is done, and spends time to record the graph. The
evaluation needs several times as much memory as necessary, which limits the batch size of the run.

Evidence
--------
The model, the number of calls in the pass, their mode, and the batch size.

Use instead
-----------
    @torch.no_grad()
    def evaluate(model, loader):
        ...

When it is fine
---------------
Not reported, since a backward follows: gradients with respect to the input (Grad-CAM, saliency, attacks), features
whose loss is computed elsewhere in the model, a policy whose graph is used later. Also not reported: a single call, and
a training batch that the loop skips.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from trueloop.event import Forward, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts
from trueloop.usercode.rewrite import imports_torch, trains, wrap_loop_in_no_grad
from trueloop.usercode.source import Edit, diff, source_of

__all__ = ["EvaluationWithoutNoGrad"]


@dataclass(slots=True)
class _Pass:
    """Calls of one model whose graphs were freed unused, without a backward in between."""

    first: Forward
    calls: int = 0
    scored: int = 0
    places: list[Place | None] = field(default_factory=list)


class EvaluationWithoutNoGrad(Rule, code="MOD103", severity=Severity.WARNING):
    not_applicable = "no model was called"
    explained_by = ("step-without-gradient",)  # a loop without backward uses no graph either
    fix_keeps_result = True

    def __init__(self) -> None:
        self._passes: dict[int, _Pass] = {}
        self._training_places: set[tuple[int, Place | None]] = set()
        self._training_functions: set[tuple[str, str]] = set()

    def on_forward(self, call: Forward) -> Findings:
        if call.fate == "trained":
            self._training_places.add((call.model, call.place))
            if call.place is not None:
                self._training_functions.add((call.place.path, call.place.function))
        skipped = call.training and (call.model, call.place) in self._training_places
        current = self._passes.get(call.model)
        fits = call.fate == "dropped" and not skipped
        if current is not None:
            same = (current.first.backwards, current.first.training) == (call.backwards, call.training)
            if not fits or not same:
                yield from self._close(call.model)
        if fits:
            current = self._passes.setdefault(call.model, _Pass(call))
            current.calls += 1
            current.scored += call.scored and call.batch != 1  # a decision on one sample is an action, not a score
            current.places.append(call.place)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for model in tuple(self._passes):
            yield from self._close(model)

    def _close(self, model: int) -> Iterator[Finding]:
        found = self._passes.pop(model)
        call = found.first
        if found.calls < 2 or (call.training and found.scored < 2):
            return
        mode = "train" if call.training else "eval"
        yield self.finding(
            call,
            f"{found.calls} consecutive calls of {call.name} in {mode} mode built autograd graphs without any "
            "`backward()`.",
            fix="Run the evaluation under `with torch.no_grad():`, or decorate it with `@torch.no_grad()`.",
            evidence=facts(found, "model calls scored_calls=scored", model=call.name, mode=mode, batch=call.batch),
            diff=self._without_graph(call.place, looped=len(set(found.places)) < len(found.places)),
        )

    def _without_graph(self, place: Place | None, *, looped: bool) -> str:
        """`@torch.no_grad()` on a function that only evaluates; otherwise `with torch.no_grad():` around the loop."""
        source = source_of(place.path) if place is not None else None
        if place is None or source is None or not imports_torch(source):
            return ""
        function = source.enclosing_function(place.line)
        training = (place.path, place.function) in self._training_functions
        if function is not None and not training and not trains(function):
            nearest = Edit(function.lineno, function.lineno - 1, (f"{source.indent(function.lineno)}@torch.no_grad()",))
            return diff(place.path, [nearest])  # below @staticmethod, @property and the like
        edit = wrap_loop_in_no_grad(source, place) if looped else None
        return "" if edit is None else diff(place.path, [edit])
