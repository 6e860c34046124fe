"""GRD101 gradients-never-cleared: each step also uses the gradients of all earlier steps.

What it sees
------------
Between two steps of an optimizer, `backward()` ran and nothing cleared the gradients it added to. Every way to clear
them counts: `optimizer.zero_grad()`, `model.zero_grad()`, `p.grad = None`, `p.grad.zero_()`. The same without an
optimizer, where the script updates its tensors itself: their gradients are still those of the `backward()` before. Or
the script adds what `torch.autograd.grad` returns to sums of its own, assigns these to `.grad`, and nothing but such
additions changes them between two steps.

Why it hurts
------------
`backward()` adds to `.grad`. Without `zero_grad()`, step 100 applies the sum of 100 gradients, most of them computed
for old weights. Training then behaves as with a far too high learning rate and endless momentum, and often still seems
to learn.

Evidence
--------
The optimizer, the number of steps without clearing, the line of `backward()`, and the learning rate.

Use instead
-----------
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

When it is fine
---------------
Not reported: gradient accumulation (several backwards per step) that clears the gradients before the next window;
gradients that another optimizer's backward leaves behind and that are cleared before use (GANs); closures that clear
inside the step (LBFGS); sums that decay (a momentum), or from which something is subtracted. Without an optimizer:
gradients that the script changes (a momentum), and several backwards between two updates.
"""

import ast

from trueloop.event import Backward, GradientsNotCleared, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, on_line, path_and_line
from trueloop.usercode.source import Edit, Source, diff, source_of

__all__ = ["GradientsNeverCleared"]


class GradientsNeverCleared(Rule, code="GRD101", severity=Severity.ERROR):
    not_applicable = "no backward was seen"
    applies_after = (Backward,)

    def __init__(self) -> None:
        self._diffs: dict[tuple[Place | None, tuple[Place, ...]], str] = {}
        """By the lines of step and backwards: this rule reports every step, and a diff takes longer than a step."""

    def on_stepped(self, event: Stepped) -> Findings:
        if event.index == 0 or event.cleared or not event.backwards or event.gradients != "new":
            return
        lines = (event.place, event.backward_places)
        if lines not in self._diffs:
            self._diffs[lines] = _zero_grad_before(event)
        yield self.finding(
            event,
            f"Step {event.index + 1} of {event.name} also used the gradients of step {event.index}: nothing cleared "
            "them in between.",
            fix="Call `optimizer.zero_grad()` once per step, before `loss.backward()`.",
            evidence={
                "optimizer": event.name,
                "steps_without_zero_grad": self.count(event.optimizer),
                "backward": [path_and_line(place) for place in event.backward_places],
                "learning_rate": event.learning_rates[:1],
            },
            place=event.backward_places[0] if event.backward_places else event.place,
            diff=self._diffs[lines],
        )

    def on_gradients_not_cleared(self, event: GradientsNotCleared) -> Findings:
        if event.sums:
            yield self.finding(
                event,
                f"The sums of gradients that this line adds to still held those of the step before, in "
                f"{event.backwards} steps: nothing cleared them after the step.",
                fix="Call `zero_()` on each of them after `optimizer.step()`. `zero_grad()` sets `p.grad` to None, and "
                "leaves the tensor that it was as it is.",
                evidence={"steps": event.backwards, "tensors": event.leaves, "shape": event.shape},
            )
            return
        bare = _named_only(event.place)
        line = "" if bare is None else f" Line {bare.line} names the method without calling it: `()` is missing."
        yield self.finding(
            event,
            f"`backward()`{on_line(event.place, bare)} adds to the gradients of the update before, {event.backwards} "
            f"times in a row: nothing cleared them in between.{line}",
            fix="Call `p.grad.zero_()` after each update, or set `p.grad = None`.",
            evidence={"backwards": event.backwards, "tensors": event.leaves, "backward": event.place},
            place=bare or event.place,
        )


def _named_only(place: Place | None) -> Place | None:
    """A line of this file that is `p.grad.zero_`, without a call."""
    source = source_of(place.path if place else "")
    for node in ast.walk(source.tree):
        bare = node.value if isinstance(node, ast.Expr) else None
        if isinstance(bare, ast.Attribute) and bare.attr in ("zero_", "zero_grad"):
            return source.place(bare, "" if place is None else place.function)
    return None


def _zero_grad_before(event: Stepped) -> str:
    """`optimizer.zero_grad()` before the backward, if a step follows each backward in one loop."""
    if event.place is None or len(event.backward_places) != 1 or event.most_at_one_place != 1 or event.closure:
        return ""
    backward = event.backward_places[0]
    source = source_of(event.place.path)
    calls = source.calls(event.place.line, "step")
    statement = source.statement(backward.line)
    if backward.path != event.place.path or len(calls) != 1 or statement is None:
        return ""
    if not _step_each_time(source, statement, event.place):
        return ""
    arguments = calls[0].args  # scaler.step(optimizer)
    optimizer = source.text(arguments[0]) if arguments else source.text(calls[0].func).removesuffix(".step")
    line = f"{source.indent(statement.lineno)}{optimizer}.zero_grad()"
    return diff(backward.path, [Edit(statement.lineno, statement.lineno - 1, (line,))])


def _step_each_time(source: Source, backward: ast.stmt, step: Place) -> bool:
    """Both in one loop of one function, the step under no extra `if`: accumulation must not clear inside a window."""
    statement = source.statement(step.line)
    if statement is None or source.enclosing_loop(backward.lineno) is not source.enclosing_loop(step.line):
        return False
    if source.enclosing_function(backward.lineno) is not source.enclosing_function(step.line):
        return False
    around = set(source.parents(backward))
    return not any(isinstance(parent, ast.If) and parent not in around for parent in source.parents(statement))
