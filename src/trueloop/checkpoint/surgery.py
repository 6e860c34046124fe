"""Weights of one model into another: a plan of which tensor goes where, as a value, and an account of it in words.

    plan = plan_surgery(shapes_of(theirs), shapes_of(model.state_dict()), {"encoder.*": "backbone.*", "head.*": None})
    print(plan.account())
    operate(plan, theirs, model)

In a pattern, `*` stands for anything, dots too, and for the same in the name it becomes. None leaves tensors out. The
first pattern that fits a name counts; a name that none fits stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.errors import BadRecipe, did_you_mean

__all__ = ["Move", "Plan", "operate", "plan_surgery", "shapes_of"]

Shape = tuple[int, ...]
SHOWN: Final = 6
"""Names told one by one; of more, the number is told."""


@dataclass(frozen=True, slots=True)
class Move:
    """One tensor: its name there, its name here, and both shapes."""

    source: str
    target: str
    before: Shape
    after: Shape

    @property
    def fits(self) -> bool:
        """Up to dimensions of one, which are added or dropped: a 1x1 convolution takes a linear layer's matrix."""
        return [size for size in self.before if size != 1] == [size for size in self.after if size != 1]

    def __str__(self) -> str:
        renamed = self.source if self.source == self.target else f"{self.source} -> {self.target}"
        return renamed if self.before == self.after else f"{renamed} {_shape(self.before)} -> {_shape(self.after)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, and what will not."""

    loaded: tuple[Move, ...]
    reshaped: tuple[Move, ...]
    """Loaded too: the same numbers in another shape."""
    mismatched: tuple[Move, ...]
    """Of another size: left as the model made them."""
    left_out: tuple[str, ...]
    """By the mapping's None."""
    unknown: tuple[str, ...]
    """There, but not in the model, by the names they would have here."""
    missing: tuple[str, ...]
    """In the model, but not there: left as the model made them."""

    @property
    def moves(self) -> tuple[Move, ...]:
        return self.loaded + self.reshaped

    def account(self) -> str:
        """One sentence with numbers and names."""
        total = len(self.moves) + len(self.mismatched) + len(self.missing)
        numbers = sum(_size(move.after) for move in self.moves)
        parts = [f"{len(self.moves)} of the model's {total} tensors loaded ({numbers:,} numbers)"]
        rows = (
            ("reshaped", self.reshaped),
            ("of another size and left as they were made", self.mismatched),
            ("missing there and left as they were made", self.missing),
            ("left out as asked", self.left_out),
            ("unknown to the model and skipped", self.unknown),
        )
        parts += [f"{len(names)} {what}: {_listed(map(str, names))}" for what, names in rows if names]
        return "; ".join(parts)


def plan_surgery(theirs: Mapping[str, Shape], ours: Mapping[str, Shape], mapping: Mapping[str, str | None]) -> Plan:
    """Pure. Raises BadRecipe for a mapping that cannot be meant."""
    targets = {name: _renamed(name, mapping) for name in theirs}
    _refuse_idle_patterns(theirs, mapping)
    _refuse_collisions(targets)
    moves = [
        Move(name, target, theirs[name], ours[target])
        for name, target in targets.items()
        if target is not None and target in ours
    ]
    if not any(move.fits for move in moves):
        raise BadRecipe(_nothing_fits(theirs, ours))
    filled = {move.target for move in moves}
    return Plan(
        loaded=tuple(move for move in moves if move.before == move.after),
        reshaped=tuple(move for move in moves if move.before != move.after and move.fits),
        mismatched=tuple(move for move in moves if not move.fits),
        left_out=tuple(name for name, target in targets.items() if target is None),
        unknown=tuple(target for target in targets.values() if target is not None and target not in ours),
        missing=tuple(name for name in ours if name not in filled),
    )


@torch.no_grad()
def operate(plan: Plan, theirs: Mapping[str, Tensor], model: nn.Module) -> None:
    """The plan, carried out, in place: whoever holds the model's tensors holds the new numbers."""
    ours = model.state_dict()
    for move in plan.moves:
        ours[move.target].copy_(theirs[move.source].reshape(move.after))


def shapes_of(state: Mapping[str, object]) -> dict[str, Shape]:
    """Of the tensors of a state dict."""
    return {name: tuple(value.shape) for name, value in state.items() if isinstance(value, Tensor)}


def _renamed(name: str, mapping: Mapping[str, str | None]) -> str | None:
    for pattern, becomes in mapping.items():
        fits = _expression(pattern).fullmatch(name)
        if fits:
            return None if becomes is None else becomes.replace("*", fits[1] if fits.groups() else "", 1)
    return name


def _expression(pattern: str) -> re.Pattern[str]:
    before, star, after = pattern.partition("*")
    return re.compile(re.escape(before) + ("(.*)" if star else "") + re.escape(after))


def _refuse_idle_patterns(names: Iterable[str], mapping: Mapping[str, str | None]) -> None:
    names = list(names)
    for pattern, becomes in mapping.items():
        if pattern.count("*") > 1 or (becomes or "").count("*") > pattern.count("*"):
            raise BadRecipe(
                f"start_map {pattern!r}: {becomes!r} cannot be read: each side may have one *. Nothing was run."
            )
        if not any(_expression(pattern).fullmatch(name) for name in names):
            near = did_you_mean(pattern, {*names, *(f"{name.partition('.')[0]}.*" for name in names)})
            raise BadRecipe(f"start_map names {pattern!r}, and no tensor there fits it.{near} Nothing was run.")


def _refuse_collisions(targets: Mapping[str, str | None]) -> None:
    taken: dict[str, str] = {}
    for name, target in targets.items():
        if target is not None and target in taken:
            raise BadRecipe(f"start_map sends both {taken[target]!r} and {name!r} to {target!r}. Nothing was run.")
        if target is not None:
            taken[target] = name


def _nothing_fits(theirs: Mapping[str, Shape], ours: Mapping[str, Shape]) -> str:
    said = f"No tensor there fits the model: it has {_listed(theirs)}; the model has {_listed(ours)}. Nothing was run."
    prefix = next(iter(theirs), "").partition(".")[0] + "."
    if all(name.startswith(prefix) and name.removeprefix(prefix) in ours for name in theirs):
        said += f' Write start_map={{"{prefix}*": "*"}}.'
    return said


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "one number"


def _size(shape: Shape) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
