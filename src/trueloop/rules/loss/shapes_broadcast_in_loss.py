"""LOS105 shapes-broadcast-in-loss: predictions [B, 1] against targets [B] are compared each with each, B x B, not one
with one.

What it sees
------------
The input and the target of a pairwise loss hold the same number of elements, in shapes that differ by dimensions of
size one, so that broadcasting compares every prediction with every target; in `mse_loss` and its kin, and in losses
written by hand (`((pred - y) ** 2).mean()`).

Why it hurts
------------
Each prediction is pulled to all targets of the batch at once, so the model learns their mean and no more. The loss is a
plausible number and falls at first.

Evidence
--------
Both shapes, the shape they were broadcast to, and how many comparisons were made instead of how many.

Use instead
-----------
    loss = F.mse_loss(model(x).squeeze(-1), y)        # [B] against [B]

When it is fine
---------------
Scalars, weights or a shared row that broadcast on purpose ([B, C] against [C]); distances of each to each that are
asked for (`a[:, None]` against `b[None]`).
"""

from __future__ import annotations

import ast
from math import prod
from typing import Final, final

from trueloop.event import Backward, LossComputed, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import called_name, calls_in, diff, source_of

__all__ = ["ShapesBroadcastInLoss"]

Shape = tuple[int, ...]

_PAIRWISE: Final = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")


@final
class ShapesBroadcastInLoss(Rule):
    code = "LOS105"
    name = "shapes-broadcast-in-loss"
    severity = Severity.ERROR
    not_applicable = "no pairwise loss was seen"

    def __init__(self) -> None:
        self._places: set[Place | None] = set()
        """Lines that a loss function has been reported for: a hand-written loss is not looked for there."""

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function not in _PAIRWISE:
            return
        made = _crossed(event.input_shape, event.target_shape)
        if made is None or _on_purpose(event):
            return
        self._places.add(event.place)
        meant = prod(event.input_shape)
        yield self.finding(
            event,
            f"{event.function} compares {list(event.input_shape)} with {list(event.target_shape)}: broadcasting makes {list(made)}, "
            f"{prod(made)} comparisons instead of {meant}.",
            fix="Give input and target the same shape, for example by .squeeze(-1) on the one with the extra dimension.",
            evidence={
                "function": event.function,
                "input_shape": list(event.input_shape),
                "target_shape": list(event.target_shape),
                "broadcast_shape": list(made),
                "comparisons": prod(made),
                "meant": meant,
            },
            diff=_squeezed(event),
        )

    def on_backward(self, event: Backward) -> Findings:
        if event.broadcast is None or event.broadcast_place in self._places:
            return
        prediction, made = event.broadcast
        if not _squared(prediction, made):
            return
        yield self.finding(
            event,
            f"A prediction of shape {list(prediction)} became {list(made)} when the target was subtracted: "
            f"{prod(made)} comparisons instead of {prod(prediction)}.",
            fix="Give prediction and target the same shape before subtracting: .squeeze(-1) on the one with the extra dimension.",
            evidence={
                "prediction_shape": list(prediction),
                "broadcast_shape": list(made),
                "comparisons": prod(made),
                "meant": prod(prediction),
            },
            place=event.broadcast_place,
        )


def _crossed(first: Shape, second: Shape) -> Shape | None:
    """The broadcast shape, if the two hold the same elements but for dimensions of size one, and yet each meets
    each."""
    if first == second or [n for n in first if n != 1] != [n for n in second if n != 1]:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    made = tuple(max(pair) for pair in pairs)
    return made if prod(made) > prod(first) else None


def _squared(prediction: Shape, made: Shape) -> bool:
    """One dimension of the prediction came twice: [B, 1] or [B] became [B, B]."""
    kept = [n for n in prediction if n != 1]
    grown = [n for n in made if n != 1]
    return any(sorted([*kept, n]) == sorted(grown) for n in kept)


def _on_purpose(event: LossComputed) -> bool:
    """A matrix of distances that somebody wants: unreduced, or with a dimension added on the line itself, in the same
    rank."""
    same_rank, unreduced = len(event.input_shape) == len(event.target_shape), event.reduction == "none"
    if event.place is None or same_rank == unreduced:
        return same_rank
    source = source_of(event.place.path)
    statement = source.statement(event.place.line)
    text = "" if statement is None else source.text(statement)
    return any(word in text for word in ("unsqueeze", "None]", "None,", "newaxis"))


def _squeezed(event: LossComputed) -> str:
    """`.squeeze(-1)` on the argument that has one more dimension, of size one, at its end."""
    longer = (
        0
        if event.input_shape == (*event.target_shape, 1)
        else 1
        if event.target_shape == (*event.input_shape, 1)
        else None
    )
    if longer is None or event.place is None:
        return ""
    source = source_of(event.place.path)
    statement = source.statement(event.place.line)
    calls = [call for call in calls_in(statement) if len(call.args) == 2] if statement is not None else []
    named = [call for call in calls if called_name(call) == event.function] or calls
    if len(named) != 1 or any(isinstance(argument, ast.Starred) for argument in named[0].args):
        return ""
    argument = named[0].args[longer]
    text = source.text(argument)
    simple = isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return diff(event.place.path, [source.replacing(argument, f"{text if simple else f'({text})'}.squeeze(-1)")])
