"""Load the weights of one model into another: plan which tensor goes where, describe the plan, apply it.

    plan = plan_transfer(shapes_of(saved), shapes_of(model.state_dict()), {"encoder.*": "backbone.*", "head.*": None})
    print(plan.summary())
    apply_transfer(plan, saved, model)

In a pattern, `*` matches any text, dots included, and `*` in the new name inserts that text. None leaves tensors out.
The first matching pattern counts; a name without a match is unchanged.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.errors import BadRecipe, did_you_mean

__all__ = ["Move", "TransferPlan", "apply_transfer", "plan_transfer", "shapes_of"]

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
SHOWN: Final = 6  # Number of names listed; the rest are counted


@dataclass(frozen=True, slots=True)
class Move:
    """One tensor: its saved name, its name in the model, and both shapes."""

    source: str
    target: str
    before: Shape
    after: Shape

    @property
    def fits(self) -> bool:
        """Whether the shapes match except for dimensions of size 1: a 1x1 convolution takes a linear layer's matrix."""
        return [size for size in self.before if size != 1] == [size for size in self.after if size != 1]

    def __str__(self) -> str:
        renamed = self.source if self.source == self.target else f"{self.source} -> {self.target}"
        return renamed if self.before == self.after else f"{renamed} {_shape(self.before)} -> {_shape(self.after)}"


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """Which tensors are loaded, and which are not."""

    loaded: tuple[Move, ...]
    reshaped: tuple[Move, ...]  # Loaded too: the same values in a different shape
    mismatched: tuple[Move, ...]  # Of a different size: they keep their initial values
    left_out: tuple[str, ...]  # Mapped to None
    unknown: tuple[str, ...]  # Saved, but not in the model; by their mapped names
    missing: tuple[str, ...]  # In the model, but not saved: they keep their initial values

    @property
    def moves(self) -> tuple[Move, ...]:
        return self.loaded + self.reshaped

    def summary(self) -> str:
        """One sentence with counts and names."""
        total = len(self.moves) + len(self.mismatched) + len(self.missing)
        numbers = sum(math.prod(move.after) for move in self.moves)
        parts = [f"{len(self.moves)} of the model's {total} tensors loaded ({numbers:,} values)"]
        rows = (
            ("reshaped", self.reshaped),
            ("of a different size, not loaded", self.mismatched),
            ("not in the saved weights, not loaded", self.missing),
            ("left out by start_map", self.left_out),
            ("not in the model, skipped", self.unknown),
        )
        parts += [f"{len(names)} {what}: {_listed(map(str, names))}" for what, names in rows if names]
        return "; ".join(parts)


def plan_transfer(saved: Shapes, ours: Shapes, mapping: Mapping[str, str | None]) -> TransferPlan:
    """Pure. Raises BadRecipe for an invalid mapping."""
    targets = {name: _renamed(name, mapping) for name in saved}
    _check_patterns(saved, mapping)
    _check_collisions(targets)
    known = {name: target for name, target in targets.items() if target is not None and target in ours}
    moves = [Move(name, target, saved[name], ours[target]) for name, target in known.items()]
    if not any(move.fits for move in moves):
        raise BadRecipe(_nothing_fits(saved, ours))
    filled = {move.target for move in moves}
    return TransferPlan(
        loaded=tuple(move for move in moves if move.before == move.after),
        reshaped=tuple(move for move in moves if move.before != move.after and move.fits),
        mismatched=tuple(move for move in moves if not move.fits),
        left_out=tuple(name for name, target in targets.items() if target is None),
        unknown=tuple(target for target in targets.values() if target is not None and target not in ours),
        missing=tuple(name for name in ours if name not in filled),
    )


@torch.no_grad()
def apply_transfer(plan: TransferPlan, saved: Mapping[str, Tensor], model: nn.Module) -> None:
    """Copy the weights into the model's tensors, in place."""
    ours = model.state_dict()
    for move in plan.moves:
        ours[move.target].copy_(saved[move.source].reshape(move.after))


def shapes_of(state: Mapping[str, object]) -> dict[str, Shape]:
    """Shapes of the tensors in a state dict."""
    return {name: tuple(value.shape) for name, value in state.items() if isinstance(value, Tensor)}


def _renamed(name: str, mapping: Mapping[str, str | None]) -> str | None:
    for pattern, becomes in mapping.items():
        if match := _expression(pattern).fullmatch(name):
            return None if becomes is None else becomes.replace("*", match[1] if match.groups() else "", 1)
    return name


def _expression(pattern: str) -> re.Pattern[str]:
    before, star, after = pattern.partition("*")
    return re.compile(re.escape(before) + ("(.*)" if star else "") + re.escape(after))


def _check_patterns(names: Iterable[str], mapping: Mapping[str, str | None]) -> None:
    names = list(names)
    for pattern, becomes in mapping.items():
        if pattern.count("*") > 1 or (becomes or "").count("*") > pattern.count("*"):
            raise BadRecipe(f"start_map {pattern!r}: {becomes!r}: each side may have one *. Nothing was run.")
        if not any(_expression(pattern).fullmatch(name) for name in names):
            near = did_you_mean(pattern, {*names, *(f"{name.partition('.')[0]}.*" for name in names)})
            raise BadRecipe(f"No saved tensor matches the start_map pattern {pattern!r}.{near} Nothing was run.")


def _check_collisions(targets: Mapping[str, str | None]) -> None:
    sources: dict[str, str] = {}
    for name, target in targets.items():
        if target is not None and target in sources:
            raise BadRecipe(f"start_map maps both {sources[target]!r} and {name!r} to {target!r}. Nothing was run.")
        if target is not None:
            sources[target] = name


def _nothing_fits(saved: Shapes, ours: Shapes) -> str:
    text = f"No saved tensor fits the model: saved are {_listed(saved)}; it has {_listed(ours)}. Nothing was run."
    prefix = next(iter(saved), "").partition(".")[0] + "."
    if all(name.startswith(prefix) and name.removeprefix(prefix) in ours for name in saved):
        text += f' Write start_map={{"{prefix}*": "*"}}.'
    return text


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"
