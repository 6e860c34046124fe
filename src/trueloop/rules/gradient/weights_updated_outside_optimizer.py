"""GRD112 weights-updated-outside-optimizer: something besides the optimizer trains the same weights.

What it sees
------------
Some weights, as a step of their optimizer left them and as its next step found them. Each time it was looked, on at
least three steps, they had changed, to the last bit, by

- a negative multiple of their gradient (with or without one of the weight): a gradient step, written by hand, beside
the optimizer's;
- or the same negative multiple of the weight, though the optimizer decays these weights itself: they are decayed twice.

Why it hurts
------------
Each batch is used twice, once with the optimizer's learning rate and once with the other one, which no schedule, no
clipping, no warm-up and no scaler knows of. What the optimizer has learnt about the size of its steps is wrong. The
rest of an older loop, or of a debugging session, makes a run that cannot be explained by its settings.

Evidence
--------
How many weights were looked at and had changed, by which multiple of gradient and weight, on how many steps.

Use instead
-----------
    optimizer.step()          # and no other line that writes to the weights

When it is fine
---------------
Not reported, as the change is no such multiple, or does not come every time: clamping (WGAN), projections and norms of
weights, pruning masks, noise, an embedding's max_norm, weights loaded or put back, averages and interpolations (EMA,
Lookahead, Reptile), perturbations that are taken back before the step (SAM, adversarial weights), decay by hand where
the optimizer does not decay, other optimizers over the same weights, weights whose optimizer has a learning rate of
zero, whatever is written before the first step, and weights that no optimizer holds.

Not seen: updates by hand with a memory of their own (momentum, Adam), those that come only now and then, those too
small for the precision of the weights, and weights of fewer than eight numbers.
"""

from __future__ import annotations

import ast
from math import isclose
from typing import Final, Literal, final

from trueloop.event import ChangedWeight, Place, WeightsCompared
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["WeightsUpdatedOutsideOptimizer"]

LOOKS: Final = 3
"""Pairs of steps that must all show it: an interpolation or a restart comes now and then, a line of the loop comes each
time."""
GRADIENT_SHARE: Final = 0.01
"""Part of the change from which on the gradient's multiple is more than what rounding puts there."""
SAME_DECAY: Final = 0.01
"""How far apart the factors of a decay by hand may lie: a constant one differs by rounding, the factors of a norm by
more than that."""
STRONGEST_DECAY: Final = 0.5
"""What takes more than half of a weight at once is no decay."""

Kind = Literal["gradient", "decay", ""]


@final
class WeightsUpdatedOutsideOptimizer(Rule):
    code = "GRD112"
    name = "weights-updated-outside-optimizer"
    severity = Severity.WARNING
    not_applicable = "no optimizer took two steps"

    def __init__(self) -> None:
        self._seen: dict[int, list[WeightsCompared]] = {}

    def why_not_checked(self) -> str:
        return "" if any(len(seen) >= LOOKS for seen in self._seen.values()) else f"no optimizer took {LOOKS + 1} steps"

    def on_weights_compared(self, event: WeightsCompared) -> Findings:
        seen = self._seen.setdefault(event.optimizer, [])
        seen.append(event)
        kinds = {_kind(known) for known in seen}
        if len(seen) < LOOKS or len(kinds) != 1 or "" in kinds:
            return
        (kind,) = kinds
        if kind == "decay" and not _same_decay(seen):
            return
        first = event.changed[0]
        by = (
            f"{first.gradient_factor:.3g} times their gradient"
            if kind == "gradient"
            else f"{first.weight_factor:.3g} times themselves"
        )
        besides = (
            "beside the optimizer's own step"
            if kind == "gradient"
            else f"beside its own weight decay of {first.weight_decay:g}"
        )
        yield self.finding(
            event,
            f"Between the steps of {event.name}, {len(event.changed)} of the {event.compared} weights looked at changed by {by}, {besides}, "
            f"on all {len(seen)} occasions.",
            fix="Leave the weights to the optimizer: take the line out, or let it be all there is."
            if kind == "gradient"
            else "Decay once: take the line out, or set the optimizer's weight_decay to 0.",
            evidence={
                "optimizer": event.name,
                "weights": [weight.name for weight in event.changed],
                "looked_at": event.compared,
                "times_the_gradient": [weight.gradient_factor for weight in event.changed],
                "times_the_weight": [weight.weight_factor for weight in event.changed],
                "occasions": len(seen),
            },
            place=_writing(event.place, kind),
        )


def _kind(event: WeightsCompared) -> Kind:
    """What all the changes between two steps have in common; empty if nothing changed, or nothing explains it."""
    written = event.changed
    if not written or not all(weight.explained for weight in written):
        return ""
    if all(weight.gradient_factor < 0 and weight.gradient_share >= GRADIENT_SHARE for weight in written):
        return "gradient"
    return "decay" if all(_is_decay(weight) for weight in written) else ""


def _is_decay(weight: ChangedWeight) -> bool:
    return (
        weight.gradient_share < GRADIENT_SHARE
        and -STRONGEST_DECAY < weight.weight_factor < 0
        and weight.weight_decay > 0
    )


def _same_decay(seen: list[WeightsCompared]) -> bool:
    """One factor for all weights, always."""
    factors = [weight.weight_factor for event in seen for weight in event.changed]
    return all(isclose(factor, factors[0], rel_tol=SAME_DECAY) for factor in factors)


def _writing(place: Place | None, kind: Kind) -> Place | None:
    """The line that writes, if only one of the file looks like it; otherwise the step that found the weights
    changed."""
    if place is None:
        return None
    source = source_of(place.path)
    writes = _uses_gradient if kind == "gradient" else _scales
    simple = [node for node in ast.walk(source.tree) if isinstance(node, (ast.AugAssign, ast.Assign, ast.Expr))]
    lines = [statement for statement in simple if writes(source, statement)]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _uses_gradient(source: Source, statement: ast.stmt) -> bool:
    """`p.data -= lr * p.grad`, `p.sub_(lr * p.grad)`, `p.data = p.data - lr * p.grad`; but not what writes to the
    gradient itself."""
    if isinstance(statement, ast.AugAssign):
        return not source.text(statement.target).endswith(".grad") and _mentions_gradient(statement.value)
    if isinstance(statement, ast.Assign):
        written = isinstance(statement.targets[0], ast.Attribute) and statement.targets[0].attr == "data"
        return written and _mentions_gradient(statement.value)
    return any(
        _in_place(call) and any(_mentions_gradient(given) for given in call.args) for call in calls_in(statement)
    )


def _scales(source: Source, statement: ast.stmt) -> bool:
    """`p.data *= 0.999`, `p.mul_(0.999)` in a loop over parameters."""
    if not any(
        isinstance(parent, ast.For) and "parameters" in source.text(parent.iter) for parent in source.parents(statement)
    ):
        return False
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, (ast.Mult, ast.Sub))
    return isinstance(statement, ast.Expr) and any(_in_place(call) for call in calls_in(statement))


def _in_place(call: ast.Call) -> bool:
    """A method that writes into its tensor, where that is not a gradient."""
    name, owner = called_name(call), call.func.value if isinstance(call.func, ast.Attribute) else None
    return name.endswith("_") and owner is not None and not (isinstance(owner, ast.Attribute) and owner.attr == "grad")


def _mentions_gradient(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr == "grad" for inner in ast.walk(node))
