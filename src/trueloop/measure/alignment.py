"""Do a sample and its dense target lie on one another, or does one have to be flipped or shifted first?"""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from trueloop.event import Alignment

__all__ = ["alignment", "explained", "searched", "small_input", "small_target"]

CELLS: Final = 16  # of a small map, in each direction
STEPS: Final = 32  # of a small series
LEAST_CELLS: Final = 6
CHANNELS: Final = 4
FIT: Final = 0.25  # share of the target's variance that a map must explain to count
CLEAR: Final = 0.1  # by which the fit exceeds that of every flip
SEARCHED: Final = 64  # rows
BETTER: Final = 0.15  # by which another one is better


def small_input(inputs: Tensor) -> Tensor | None:
    """[rows, channels, cells, cells] of images, [rows, channels, steps] of series [rows, channels, time]."""
    sizes = inputs.shape[2:]
    if not inputs.is_floating_point() or len(sizes) not in (1, 2) or min(sizes) < LEAST_CELLS:
        return None
    spaced = inputs[:, :: -(-inputs.shape[1] // CHANNELS)]
    return _pooled(spaced.detach().float(), len(sizes))


def small_target(targets: Tensor, inputs: tuple[int, ...], cells: int) -> Tensor | None:
    """The targets on the cells of inputs of this shape, one map each; None if they have no such dimensions. Of class
    labels: where the label is not the most frequent one."""
    space = len(inputs) - 2
    if targets.ndim not in (space + 1, space + 2) or targets.shape[0] != inputs[0]:
        return None
    ratios = {a / b for a, b in zip(targets.shape[-space:], inputs[2:], strict=True)}
    if len(ratios) != 1 or ratios.pop() not in (0.25, 0.5, 1, 2, 3, 4):
        return None
    targets = targets.detach()
    if not targets.is_floating_point() and targets.numel() and targets.dtype is not torch.bool:
        values, counts = torch.unique(targets, return_counts=True)
        targets = targets != values[counts.argmax()]
    maps = targets.float().reshape(len(targets), -1, *targets.shape[-space:])
    if maps.shape[1] > CHANNELS * 8:
        return None
    small = _pooled(maps, space, cells)
    return small[torch.arange(len(small)), small.flatten(2).var(2).argmax(1)]


def _pooled(maps: Tensor, space: int, cells: int = 0) -> Tensor:
    if space == 1:
        return functional.adaptive_avg_pool1d(maps, cells or min(STEPS, maps.shape[2]))
    size = cells or min(CELLS, *maps.shape[2:])
    return functional.adaptive_avg_pool2d(maps, (size, size))


@torch.no_grad()
def alignment(inputs: Tensor, targets: Tensor) -> Alignment | None:
    """How the small targets of `small_target` lie on the small inputs of `small_input`."""
    usable = inputs.flatten(1).isfinite().all(1) & targets.flatten(1).isfinite().all(1)
    usable &= (targets.flatten(1).std(1) > 1e-6) & (inputs.flatten(1).std(1) > 1e-6)
    inputs, targets = inputs[usable], targets[usable]
    if not len(inputs):
        return None
    plain = _fit(inputs, targets)
    flips = torch.stack([_fit(flipped, targets) for flipped in _flips(inputs)])
    shifts = torch.stack([_fit(one, other) for one, other in _shifts(inputs, targets)])
    flipped, shifted = flips.max(0).values, shifts.max(0).values
    other = torch.maximum(flipped, shifted)
    moved = (other >= FIT) & (other >= plain + BETTER)
    aligned = (plain >= FIT) & (plain >= flipped + CLEAR) & ~moved
    by_flip = moved & (flipped >= shifted)
    return Alignment(
        len(inputs), int(aligned.sum()), int(moved.sum()), int(by_flip.sum()),
        _median(plain[aligned]), _median(other[moved]), _median(plain[moved]),
    )  # fmt: skip


@torch.no_grad()
def explained(outputs: Tensor, targets: Tensor) -> float:
    """Share of each small target's variance that the channels of the output explain, in the median."""
    varied = targets.flatten(1).std(1) > 1e-6
    usable = varied & outputs.flatten(1).isfinite().all(1) & targets.flatten(1).isfinite().all(1)
    return _median(_fit(outputs[usable], targets[usable])) if bool(usable.any()) else 0.0


@torch.no_grad()
def searched(inputs: Tensor, targets: Tensor, found: Alignment) -> Alignment:
    """The same after a search over flips with shifts of up to half a map, for rows that fit in no simpler way. A row
    counts if its own target fits clearly better than that of another row, less those of which the other's does."""
    inputs, targets = inputs[:SEARCHED], targets[:SEARCHED]
    plain, strangers = _fit(inputs, targets), targets.roll(1, 0)
    own, other = torch.zeros(len(inputs), dtype=torch.float32), torch.zeros(len(inputs), dtype=torch.float32)
    for flipped in (inputs, *(inputs.flip(dims) for dims in ([3], [2], [2, 3]) if inputs.ndim == 4)):
        for both, best in ((targets, own), (strangers, other)):
            for one, part in _shifts(flipped, both, (1 / 8, 1 / 4, 3 / 8, 1 / 2)):
                best.copy_(torch.maximum(best, _fit(one, part)))
    clear = (own >= FIT + CLEAR) & (own >= other + BETTER) & (own >= plain + BETTER)
    chance = (other >= FIT + CLEAR) & (other >= own + BETTER)
    moved = max(0, int(clear.sum()) - int(chance.sum()))
    aligned = round(found.aligned * len(inputs) / found.rows)
    return Alignment(len(inputs), aligned, moved, 0, found.fit, _median(own[clear]), _median(plain[clear]))


def _median(values: Tensor) -> float:
    return values.median().item() if len(values) else 0.0


def _flips(maps: Tensor) -> Iterator[Tensor]:
    """All other orientations."""
    if maps.ndim == 3:
        yield maps.flip(2)
        return
    turned = maps.transpose(2, 3)
    yield turned
    for dims in ([3], [2], [2, 3]):
        yield maps.flip(dims)
        yield turned.flip(dims)


def _shifts(
    maps: Tensor, targets: Tensor, parts: tuple[float, ...] = (1 / 8, 1 / 4)
) -> Iterator[tuple[Tensor, Tensor]]:
    """Both cut to the part that overlaps after a shift."""
    size = maps.shape[2]
    steps = sorted({round(size * part) * sign for part in parts for sign in (-1, 1)} | {0})
    across = steps if maps.ndim == 4 else [0]
    for down in steps:
        for right in across:
            if down or right:
                kept = [slice(max(0, s), size + min(0, s)) for s in (down, right)]
                cut = [slice(max(0, -s), size + min(0, -s)) for s in (down, right)]
                if maps.ndim == 3:
                    yield maps[:, :, kept[0]], targets[:, cut[0]]
                else:
                    yield maps[:, :, kept[0], kept[1]], targets[:, cut[0], cut[1]]


def _fit(maps: Tensor, targets: Tensor) -> Tensor:
    """Share of each target's variance that a weighted sum of the sample's channels explains."""
    x, y = maps.flatten(2), targets.flatten(1)
    x, y = x - x.mean(2, keepdim=True), y - y.mean(1, keepdim=True)
    size = x.square().sum(2).mean(1).clamp_min(1e-12)
    gram = x @ x.transpose(1, 2) + 1e-3 * size[:, None, None] * torch.eye(x.shape[1], dtype=x.dtype)
    with_target = (x @ y[:, :, None]).squeeze(2)
    explained: Tensor = (with_target * torch.linalg.solve(gram, with_target)).sum(1)
    return explained / y.square().sum(1).clamp_min(1e-12) - x.shape[1] / x.shape[2]
