"""Do processes that hold copies of the same weights still hold the same? One number for each parameter tells.

Only where bits differ is it asked by how much: kernels that add up in no fixed order, and GPUs that are not alike,
leave differences in the last digits, which mean nothing.
"""

import math
from itertools import combinations
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.parallel.strategy import Strategy

__all__ = ["Drift", "drift"]

_SHADOWS: Final = 16  # numbers that estimate the distance of two copies (to a fifth of it) without sending them
# Bytes of an element -> integer dtype of the same width
_AS_NUMBERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_Said = tuple[tuple[tuple[str, int], ...], int]  # Which part of a parameter a process holds, and the number of its bits


class Drift(NamedTuple):
    """A parameter that is not the same where it should be: the one that differs most."""

    parameter: str
    ranks: tuple[tuple[int, ...], ...]  # Groups of ranks that agree, the largest first
    distance: float
    others: int = 0  # How many more parameters differ

    def sentence(self, step: int) -> str:
        """In the words of the rule PAR103, which sees the same in scripts."""
        groups = " and ".join(f"rank{'s' * (len(each) > 1)} {', '.join(map(str, each))}" for each in self.ranks)
        more = f" (and {self.others} more do)" if self.others else ""
        return (
            f"PAR103 parameters-differ-across-ranks: after {step:,} steps, {self.parameter} differs by "
            f"{self.distance:.2g} of its norm between {groups}{more}, though they exchange gradients: each rank trains "
            "a different model. Change no weight on one rank alone."
        )


@torch.no_grad()
def drift(model: nn.Module, strategy: Strategy) -> Drift | None:
    """None: all copies are the same. All processes call this together; the host waits for the device, once."""
    named = list(model.named_parameters())
    parts = strategy.mine(parameter for _, parameter in named)
    numbers = torch.stack([_number(part) for part in parts]).tolist() if parts else []
    pairs = zip(named, numbers, strict=True)
    mine: list[_Said] = [(strategy.where(parameter), number) for (_, parameter), number in pairs]
    everybody: list[list[_Said]] = strategy.peers.gather(mine)
    apart = {place: camps for place in range(len(named)) if (camps := _camps([said[place] for said in everybody]))}
    if not apart:
        return None
    shadows = strategy.peers.gather({place: _shadows(parts[place]) for place in apart})
    found = []
    for place, camps in apart.items():
        distance = _distance([shadows[camp[0]][place] for camp in camps])
        found.append(Drift(named[place][0], camps, distance))
    found = [each for each in found if each.distance > PARAMETER_DRIFT]
    return max(found, key=lambda each: each.distance)._replace(others=len(found) - 1) if found else None


def _number(part: Tensor) -> Tensor:
    flat = (torch.view_as_real(part) if part.is_complex() else part).contiguous().view(-1)
    return flat.view(_AS_NUMBERS[flat.element_size()]).sum(dtype=torch.int64)


def _camps(said: list[_Said]) -> tuple[tuple[int, ...], ...]:
    """Groups of ranks that hold the same shard of a parameter with different digests; empty if all agree."""
    for part in sorted({where for where, _ in said}):
        by_number: dict[int, list[int]] = {}
        for rank, (held, number) in enumerate(said):
            if held == part:
                by_number.setdefault(number, []).append(rank)
        if len(by_number) > 1:
            return tuple(sorted((tuple(ranks) for ranks in by_number.values()), key=lambda ranks: (-len(ranks), ranks)))
    return ()


def _shadows(part: Tensor) -> list[float]:
    """Sums under signs that are drawn alike on all processes, from draws of their own; and the length."""
    flat = (torch.view_as_real(part) if part.is_complex() else part).reshape(-1).double()
    draws = torch.Generator(flat.device).manual_seed(0)
    options: dict[str, Any] = {"generator": draws, "device": flat.device, "dtype": torch.int8}
    signs = (torch.randint(0, 2, flat.shape, **options) for _ in range(_SHADOWS))
    return [*(float(flat @ (2.0 * each.double() - 1.0)) for each in signs), float(flat.norm())]


def _distance(shadows: list[list[float]]) -> float:
    """The largest between any two, as a share of their length."""
    return max(_apart(one, other) for one, other in combinations(shadows, 2))


def _apart(one: list[float], other: list[float]) -> float:
    """The distance as a share of their length; infinite where only one is finite, 0 where neither is."""
    if not (math.isfinite(one[-1]) and math.isfinite(other[-1])):
        return math.inf if math.isfinite(one[-1]) or math.isfinite(other[-1]) else 0.0
    return math.dist(one[:-1], other[:-1]) / math.sqrt(_SHADOWS) / max(one[-1], other[-1], 1e-30)
