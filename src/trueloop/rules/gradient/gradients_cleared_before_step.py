"""GRD102 gradients-cleared-before-step: gradients are cleared between `backward()` and `step()`, so the step has none.

What it sees
------------
`backward()` computed gradients for an optimizer's parameters, something cleared them, and then the optimizer stepped
without any gradient. Or a step calls `backward()` on two losses, on two lines, and the gradients of the first are
cleared before the second: in recorded steps, where nothing had read them.

Why it hurts
------------
The step does not change the weights, or changes them by momentum and weight decay only. The loss does not fall, and no
error is raised.

Evidence
--------
The optimizer, how many of its steps had no gradient, and the line of `backward()`.

Use instead
-----------
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

When it is fine
---------------
Never in a training step. `zero_grad()` after the step or before the backward is the standard loop and is not reported.
Neither are steps of an optimizer whose parameters are all frozen: a player of a GAN that rests on purpose.
Of two losses: gradients that something reads or keeps (norms of terms, projections), that also reach an input
(adversarial examples, saliency) or the parameters of another optimizer, or after which weights changed (SAM); and a
first loss that is a term of the second.
"""

from typing import Final

from trueloop.event import GradientsErased, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, on_line
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["GradientsClearedBeforeStep"]


SAMPLED: Final = 2  # recorded steps that must show that the gradients of a loss are lost


class GradientsClearedBeforeStep(Rule, code="GRD102", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> Findings:
        steps = self.count("steps", event.optimizer)
        if event.gradients != "cleared":
            return
        backward = event.backward_places[0] if event.backward_places else None
        line = _zero_grad_line(backward, event.place)
        erased = f"`zero_grad()` on line {line}" if line else "Something between backward and step"
        yield self.finding(
            event,
            f"{erased} erased the gradients from `backward()`{on_line(backward, event.place)}, so {event.name} stepped "
            "without any.",
            fix="Call `zero_grad()` before `backward()` or after `step()`, never between the two.",
            evidence={
                "optimizer": event.name,
                "empty_steps": self.count("empty", event.optimizer),
                "steps": steps,
                "backward": backward,
            },
        )

    def on_gradients_erased(self, event: GradientsErased) -> Findings:
        lost, used = event.place, event.used
        if event.assigned or lost is None or used is None or lost == used or _has_hooks(lost):
            return
        if self.count("erased", lost, used) != SAMPLED:
            return
        line = _zero_grad_line(lost, used)
        erased = f"`zero_grad()` on line {line}" if line else "Something between the two backward calls"
        yield self.finding(
            event,
            f"{erased} erased the gradients from `backward()`{on_line(lost, used)}: {event.name} stepped with those of "
            f"`backward()`{on_line(used, lost)} alone.",
            fix="Call `zero_grad()` once, before the first `backward()` of a step; or add the losses.",
            evidence={"optimizer": event.name, "lost": lost, "used": used, "sampled_steps": SAMPLED},
            place=Place(lost.path, line, lost.function) if line else lost,
        )


def _has_hooks(place: Place) -> bool:
    """A hook, or a tensor that keeps its gradient, may be what that backward is for."""
    text = "".join(source_of(place.path).lines)
    return "retain_grad(" in text or "_hook(" in text


def _zero_grad_line(backward: Place | None, step: Place | None) -> int:
    """The line of the only `zero_grad()` between the two calls; 0 if there is not exactly one."""
    if backward is None or step is None or backward.path != step.path:
        return 0
    calls = [call for call in calls_in(source_of(step.path).tree) if called_name(call) == "zero_grad"]
    lines = [call.lineno for call in calls if backward.line < call.lineno < step.line]
    return lines[0] if len(lines) == 1 else 0
