"""GRD115 micro-batch-gradients-discarded: gradients of most micro-batches are cleared before any step uses them.

What it sees
------------
One line calls `backward()` several times per optimizer step. Before each call but the last, the gradients of the one
before were cleared, and nothing had used them: no optimizer stepped, and no weight changed. Or each micro-batch assigns
what `torch.autograd.grad` returned to `.grad` (`p.grad = g`), over the gradients of the one before, which nothing had
read. Or a loop calls `torch.autograd.grad` several times per step, and only the result of its last call is ever read.

Why it hurts
------------
The step uses the last micro-batch only. The others are computed for nothing, the effective batch is a fraction of the
one that was meant, and a loss divided by the number of micro-batches makes the step that much smaller again.

Evidence
--------
Steps, backward calls that were used and that were discarded, and the line of `backward()`.

Use instead
-----------
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()          # once per step, not per micro-batch

When it is fine
---------------
Not reported: gradients from another line than the gradients of the step (adversarial examples, a discriminator's loss),
gradients that your code combines and assigns itself (per-sample clipping, multi-task projection), gradients that
changed a weight in between (SAM, inner loops), results of which a loop keeps those of one batch by its loss, closures,
and steps that are skipped now and then (a non-finite loss).
"""

from collections import Counter
from typing import Final

from trueloop.event import GradientsErased, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, on_line
from trueloop.usercode.rewrite import loops_around
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["MicroBatchGradientsDiscarded"]

STEPS: Final = 5
SHARE: Final = 0.8  # of the steps
DROPPED: Final = 4  # the same where results are dropped: a loop may keep the gradients of one batch, by its loss
SAMPLED: Final = 2  # recorded steps that must show that assigned gradients are lost


class MicroBatchGradientsDiscarded(Rule, code="GRD115", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._used: Counter[int] = Counter()
        self._discarded: Counter[int] = Counter()

    def on_stepped(self, event: Stepped) -> Findings:
        steps, number = self.count("steps", event.optimizer), event.optimizer
        self._used[number] += event.most_at_one_place
        self._discarded[number] += event.discarded
        if event.gradients != "new" or not 0 < event.most_at_one_place <= event.discarded:
            return
        wasteful = self.count("wasteful", number)
        if wasteful < STEPS or wasteful < SHARE * steps:
            return
        backward = event.backward_places[-1] if event.backward_places else None
        used, lost = self._used[number], self._discarded[number]
        clearing = _clearing_line(backward)
        yield self.finding(
            event,
            f"{event.name} used the gradients of {used} of {used + lost} backward calls{on_line(backward, clearing)}: "
            f"the others were cleared before any step, in {wasteful} of {steps} steps.",
            fix="Call `zero_grad()` once per `step()`, not for every micro-batch.",
            evidence={"optimizer": event.name, "steps": steps, "used": used, "discarded": lost, "backward": backward},
            place=clearing or backward,
        )

    def on_gradients_erased(self, event: GradientsErased) -> Findings:
        if event.dropped:
            yield from self._dropped(event)
            return
        if not event.assigned or event.place != event.used or self.count("assigned", event.place) != SAMPLED:
            return
        yield self.finding(
            event,
            f"{event.name} uses the gradients of {event.kept} of {event.erased + event.kept} micro-batches: this line "
            "assigns to `.grad` over those of the micro-batch before, which nothing has used.",
            fix="Add them: `p.grad += g`, with `p.grad = torch.zeros_like(p)` once per step.",
            evidence={"optimizer": event.name, "kept": event.kept, "erased": event.erased, "sampled_steps": SAMPLED},
        )

    def _dropped(self, event: GradientsErased) -> Findings:
        """Reported from a loop only: a function that returns loss and gradients may be called for the loss."""
        where = event.place
        if where is None or self.count("dropped", where) != DROPPED:
            return
        source = source_of(where.path)
        statement = source.statement(where.line)
        inside = source.enclosing_function(where.line)
        loop = None if statement is None else next(iter(loops_around(source, statement)), None)
        if loop is None or source.enclosing_function(loop.lineno) is not inside:
            return
        yield self.finding(
            event,
            f"{event.name} uses the gradients of {event.kept} of {event.erased + event.kept} calls of "
            "`torch.autograd.grad` on this line: nothing reads what the others returned.",
            fix="Add them: `sums = [s + g for s, g in zip(sums, gradients)]`.",
            evidence={"optimizer": event.name, "kept": event.kept, "erased": event.erased, "sampled_steps": DROPPED},
        )


def _clearing_line(backward: Place | None) -> Place | None:
    """The `zero_grad()` in the loop around the backward, or the only one of the file."""
    if backward is None:
        return None
    source = source_of(backward.path)
    calls = [call for call in calls_in(source.tree) if called_name(call) == "zero_grad"]
    statement = source.statement(backward.line)
    for loop in () if statement is None else loops_around(source, statement):
        inside = [call for call in calls if loop.lineno <= call.lineno <= (loop.end_lineno or loop.lineno)]
        if inside:
            before = [call for call in inside if call.lineno <= backward.line]
            return source.place((before or inside)[-1], backward.function)
    return source.place(calls[0], backward.function) if len(calls) == 1 else None
