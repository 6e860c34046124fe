"""Samples and dense targets (images, series) in stored order: does each target belong to its own sample?"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from trueloop.measure.alignment import small_input, small_target

__all__ = ["Pairing", "paired"]

LEAST_ROWS: Final = 100
STRONG: Final = 0.6  # correlation of a sample with the target that fits it best
BETTER: Final = 0.25  # by which that is above its own
STEPS: Final = 256
CLEARLY: Final = 0.7  # of the second best one's distance
SHOWN: Final = 4
SHIFTS: Final = (1, 2, 3)  # steps between a sample and its target in a series
EQUAL: Final = 0.2  # of the steps; the others are padding


class Pairing(NamedTuple):
    rows: int
    own: int  # of them: their own target fits best, or as well as any other
    others: int  # of them: a different target fits them far better, and they it
    fit: float  # of those: median correlation with that target
    own_fit: float  # with their own
    shifted: float  # of those: share with the most frequent distance in the stored order
    by_chance: int  # the same of mirrored targets
    examples: tuple[tuple[int, int], ...]  # rows, and where their targets are


@torch.no_grad()
def paired(inputs: Tensor, targets: Tensor, places: Tensor) -> Pairing | None:
    """None: too few rows, targets without the dimensions of the samples, or the samples themselves some steps later."""
    if inputs.ndim not in (2, 3, 4) or targets.ndim < inputs.ndim - 1 or len(inputs) < LEAST_ROWS:
        return None
    if _is_next_step(inputs, targets):
        return None  # a language model: each target is of its own row, and parts of words look like other words
    inputs, targets = (t.float().unsqueeze(1) if t.ndim == 2 else t.float() for t in (inputs, targets))
    small = small_input(inputs)
    if small is not None and inputs.ndim == 3 and inputs.shape[2] <= STEPS:
        small = inputs  # short series as they are
    dense = None if small is None else small_target(targets, tuple(inputs.shape), small.shape[-1])
    if small is None or dense is None:
        return None
    one, other = _centered(small.mean(1)), _centered(dense)
    usable = one.isfinite().all(1) & other.isfinite().all(1) & (one.norm(dim=1) > 0.5) & (other.norm(dim=1) > 0.5)
    one, other, places = one[usable], other[usable], places[usable]
    if len(one) < LEAST_ROWS:
        return None
    moved, best, there, own = _moved(one, other)
    mirrored = _centered(dense.flip(-1))[usable]
    distances = (places[there] - places)[moved]
    common = 0.0 if not len(distances) else torch.unique(distances, return_counts=True)[1].max().item() / len(distances)
    examples = [(int(places[i]), int(places[there[i]])) for i in moved.nonzero()[:SHOWN, 0].tolist()]
    return Pairing(
        len(one), int((own >= best - BETTER / 2).sum()), int(moved.sum()), _median(best[moved]), _median(own[moved]),
        common, int(_moved(one, mirrored)[0].sum()), tuple(examples),
    )  # fmt: skip


def _is_next_step(inputs: Tensor, targets: Tensor) -> bool:
    """Whether targets are what the same row holds some steps later: far more are equal than to another row."""
    if inputs.ndim != 2 or targets.shape != inputs.shape:
        return False
    for shift in SHIFTS:
        later, earlier = inputs[:, shift:], targets[:, :-shift]
        equal = (later == earlier).float().mean().item()
        if equal >= EQUAL and equal >= 2 * (later.roll(1, 0) == earlier).float().mean().item():
            return True
    return False


def _moved(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows that a different one fits far better, and it them; the best fit of each row, which one that is, and that of
    its own."""
    fits = one @ other.T
    own = fits.diagonal()
    (best, second), order = (t.unbind(1) for t in (fits.topk(2).values, fits.topk(2).indices))
    there = order[0]
    mutual = fits.argmax(0)[there] == torch.arange(len(fits))
    clear = (1 - best) <= CLEARLY * (1 - second)
    return mutual & clear & (best >= STRONG) & (best >= own + BETTER), best, there, own


def _centered(maps: Tensor) -> Tensor:
    """Without what all rows have in common, and of length 1."""
    flat = maps.flatten(1)
    flat = flat - flat.mean(0)
    flat = flat - flat.mean(1, keepdim=True)
    scaled: Tensor = flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-9)
    return scaled


def _median(values: Tensor) -> float:
    return values.median().item() if len(values) else 0.0
