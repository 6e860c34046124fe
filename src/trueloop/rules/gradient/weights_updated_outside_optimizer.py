"""GRD112 weights-updated-outside-optimizer: some other code also updates the optimizer's weights.

What it sees
------------
Some weights, after one step of their optimizer and before its next step. In every comparison, on at least three steps,
they had changed exactly by

- a negative multiple of their gradient (with or without a multiple of the weight): a manual gradient step in addition
  to the optimizer's;
- or the same negative multiple of the weight, although the optimizer already applies weight decay: they are decayed
  twice.

Why it hurts
------------
Each batch is used twice, once with the optimizer's learning rate and once with a second one that no schedule, clipping,
warm-up or scaler controls. The optimizer's statistics no longer fit its steps. Such a line is often left over from an
older loop or from debugging, and the run does not match its settings.

Evidence
--------
The number of weights compared and changed, the multiple of the gradient and of the weight, and the number of steps.

Use instead
-----------
    optimizer.step()          # and no other line that writes to the weights

When it is fine
---------------
Not reported, since the change is not such a multiple or does not happen at every step: clamping (WGAN), projections and
weight normalization, pruning masks, noise, `max_norm` of an embedding, weights loaded or restored, averages and
interpolation (EMA, Lookahead, Reptile), perturbations that are undone before the step (SAM, adversarial weights),
manual decay if the optimizer does not decay, several optimizers over the same weights, a learning rate of zero, writes
before the first step, and weights that no optimizer holds.

Not detected: manual updates with their own state (momentum, Adam), updates on some steps only, updates too small for
the precision of the weights, and weights with fewer than eight elements.
"""

import ast
from math import isclose
from typing import Final, Literal

from trueloop.event import Place, WeightsCompared
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["WeightsUpdatedOutsideOptimizer"]

LOOKS: Final = 3  # Pairs of steps that must all show it: an interpolation or a restart happens only sometimes
GRADIENT_SHARE: Final = 0.01  # Share of the change above which the multiple of the gradient is more than rounding
SAME_DECAY: Final = 0.01  # Relative spread of the factors of a manual decay: a constant differs by rounding only
STRONGEST_DECAY: Final = 0.5  # A change of more than half of a weight at once is not weight decay

Kind = Literal["gradient", "decay", ""]


class WeightsUpdatedOutsideOptimizer(Rule, code="GRD112", severity=Severity.WARNING):
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
            else f"{first.weight_factor:.3g} times the weight"
        )
        besides = (
            "in addition to its own update"
            if kind == "gradient"
            else f"in addition to its weight_decay={first.weight_decay:g}"
        )
        yield self.finding(
            event,
            f"Between steps of {event.name}, {len(event.changed)} of {event.compared} weights changed by {by}, "
            f"{besides}, in all {len(seen)} comparisons.",
            fix="Remove the manual update and leave the weights to `optimizer.step()`."
            if kind == "gradient"
            else "Apply weight decay once: remove the line, or set `weight_decay=0` in the optimizer.",
            evidence={
                "optimizer": event.name,
                "weights": [weight.name for weight in event.changed],
                "compared": event.compared,
                "gradient_factors": [weight.gradient_factor for weight in event.changed],
                "weight_factors": [weight.weight_factor for weight in event.changed],
                "comparisons": len(seen),
            },
            place=_update_line(event.place, kind),
        )


def _kind(event: WeightsCompared) -> Kind:
    """The kind of all changes between two steps; empty if nothing changed or the change has no such form."""
    written = event.changed
    if not written or not all(weight.explained for weight in written):
        return ""
    if all(weight.gradient_factor < 0 and weight.gradient_share >= GRADIENT_SHARE for weight in written):
        return "gradient"
    decayed = all(-STRONGEST_DECAY < weight.weight_factor < 0 < weight.weight_decay for weight in written)
    return "decay" if decayed and all(weight.gradient_share < GRADIENT_SHARE for weight in written) else ""


def _same_decay(seen: list[WeightsCompared]) -> bool:
    """All weights have the same factor in every comparison."""
    factors = [weight.weight_factor for event in seen for weight in event.changed]
    return all(isclose(factor, factors[0], rel_tol=SAME_DECAY) for factor in factors)


def _update_line(place: Place | None, kind: Kind) -> Place | None:
    """The line of the manual update, if exactly one line of the file looks like one; otherwise that of the step."""
    if place is None:
        return None
    source = source_of(place.path)
    writes = _uses_gradient if kind == "gradient" else _scales
    simple = [node for node in ast.walk(source.tree) if isinstance(node, (ast.AugAssign, ast.Assign, ast.Expr))]
    lines = [statement for statement in simple if writes(source, statement)]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _uses_gradient(source: Source, statement: ast.stmt) -> bool:
    """`p.data -= lr * p.grad`, `p.sub_(lr * p.grad)`, `p.data = p.data - lr * p.grad`; not writes to `p.grad`."""
    if isinstance(statement, ast.AugAssign):
        return not source.text(statement.target).endswith(".grad") and _mentions_gradient(statement.value)
    if isinstance(statement, ast.Assign):
        written = isinstance(statement.targets[0], ast.Attribute) and statement.targets[0].attr == "data"
        return written and _mentions_gradient(statement.value)
    return any(_in_place(call) and any(map(_mentions_gradient, call.args)) for call in calls_in(statement))


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
    """A method that writes into its tensor, unless that is a gradient."""
    name, owner = called_name(call), call.func.value if isinstance(call.func, ast.Attribute) else None
    return name.endswith("_") and owner is not None and not (isinstance(owner, ast.Attribute) and owner.attr == "grad")


def _mentions_gradient(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr == "grad" for inner in ast.walk(node))
