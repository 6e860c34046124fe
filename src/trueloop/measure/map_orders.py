"""In which orientation do dense targets (masks, heat maps, images) follow their samples: as they are, or in another?

One ridge regression for all samples, from a few local features of the input (its values, their local mean, the size of
their gradient) to the target, is fitted on one half of the samples and asked about the other half. The orientations are
those of a square, and shifts. Layouts that all samples share are taken out first, so that they cannot decide.
"""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from trueloop.event import Alignment, MapOrder

__all__ = ["map_order", "orders_of_rows", "small_output"]

LEAST_ROWS: Final = 12  # distinct
STRANGERS: Final = 20  # pairings with other rows, which say what chance gives
LEAST_SPREAD: Final = 0.004  # of correlations by chance
MOST_CHANNELS: Final = 32  # of an output
CORRELATES: Final = 0.4  # a row's target with its prediction, at least
CLEAR: Final = 0.1  # by which the best orientation of a row exceeds all others

_TURNS: Final = {
    "transposed": (True, ()),
    "mirrored left to right": (False, (-1,)),
    "upside down": (False, (-2,)),
    "turned by 180 degrees": (False, (-2, -1)),
    "turned by 90 degrees": (True, (-2,)),
    "turned by 270 degrees": (True, (-1,)),
    "transposed across the other diagonal": (True, (-2, -1)),
}
"""Whether the two axes are exchanged, and what is flipped then."""


@torch.no_grad()
def map_order(inputs: Tensor, targets: Tensor) -> MapOrder | None:
    """Of small maps, as `small_input` and `small_target` make them: [rows, channels, y, x] and [rows, y, x], or
    [rows, channels, steps] and [rows, steps]."""
    usable = inputs.flatten(1).isfinite().all(1) & targets.flatten(1).isfinite().all(1)
    usable &= (targets.flatten(1).std(1) > 1e-6) & (inputs.flatten(1).std(1) > 1e-6)
    kept = [index for index in _first_of_each(inputs) if bool(usable[index])]
    if len(kept) < LEAST_ROWS:
        return None
    features, targets = _features(inputs[kept]), _without_layout(targets[kept, None])
    strangers = [_correlation(features, targets.roll(by, 0)) for by in range(1, min(STRANGERS + 1, len(kept)))]
    chance = sum(strangers) / len(strangers)
    spread = max(LEAST_SPREAD, torch.tensor(strangers).std().item())
    orders = {name: _correlation(x, y) for name, x, y in _orders(features, targets)}
    best = max(orders, key=lambda name: orders[name])
    used = _correlation(features, targets)
    return MapOrder(len(features), best, used, orders[best], (used - chance) / spread, (orders[best] - chance) / spread,
                    targets.ndim == 4)  # fmt: skip


@torch.no_grad()
def orders_of_rows(known: tuple[Tensor, Tensor], asked: tuple[Tensor, Tensor]) -> tuple[Alignment, Alignment] | None:
    """Row by row, in which orientation targets follow their samples, by a regression on pairs that are known to fit: of
    the asked pairs, and of the known ones by a regression on their other half. Rows count where one orientation is
    clearly the best; from the moved ones as many are taken away as pairs with the targets of other rows give."""
    one, other = _pairs(*known), _pairs(*asked)
    if one is None or other is None or one[0].shape[1:] != other[0].shape[1:]:
        return None
    half = torch.arange(len(one[0])) % 2 == 0
    control = [_predicted(one[0][side], one[1][side], one[0][~side]) for side in (half, ~half)]
    held_out = _oriented(torch.cat(control), torch.cat([one[1][~half], one[1][half]]))
    return _oriented(_predicted(*one, other[0]), other[1]), held_out


def _pairs(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor] | None:
    usable = inputs.flatten(1).isfinite().all(1) & targets.flatten(1).isfinite().all(1)
    usable &= (targets.flatten(1).std(1) > 1e-6) & (inputs.flatten(1).std(1) > 1e-6)
    kept = [index for index in _first_of_each(inputs) if bool(usable[index])]
    return None if len(kept) < LEAST_ROWS else (_features(inputs[kept]), _without_layout(targets[kept, None]))


def _predicted(features: Tensor, targets: Tensor, asked: Tensor) -> Tensor:
    x, y = _cells(features), _cells(targets)
    weights = torch.linalg.solve(x.T @ x + 1e-2 * len(x) * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)
    found: Tensor = (_cells(asked) @ weights).reshape(len(asked), 1, *asked.shape[2:])
    return found


def _oriented(predicted: Tensor, targets: Tensor) -> Alignment:
    own, strange = _by_order(predicted, targets), _by_order(predicted, targets.roll(1, 0))
    aligned, moved = _decided(own)
    _, chance = _decided(strange)
    count = max(0, int(moved.sum()) - int(chance.sum()))
    best = own.max(0).values.clamp_min(0).square()
    as_used = own[0].clamp_min(0).square()
    return Alignment(len(targets), int(aligned.sum()), count, count,
                     _median(best[aligned]), _median(best[moved]), _median(as_used[moved]))  # fmt: skip


def _by_order(predicted: Tensor, targets: Tensor) -> Tensor:
    """[orientations, rows]: how each row's target correlates with its prediction, as it is and turned."""
    turned = [predicted, *(maps for _, maps, _ in _orders(predicted, targets))]
    return torch.stack([_row_correlation(maps, targets) for maps in turned])


def _row_correlation(maps: Tensor, targets: Tensor) -> Tensor:
    x, y = maps.flatten(1), targets.flatten(1)
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    found: Tensor = (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1)).clamp_min(1e-12)
    return found


def _decided(correlations: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that fit as they are, and rows that fit in another orientation."""
    two = correlations.topk(2, 0)
    clear = (two.values[0] >= CORRELATES) & (two.values[0] - two.values[1] >= CLEAR)
    return clear & (two.indices[0] == 0), clear & (two.indices[0] != 0)


def _median(values: Tensor) -> float:
    return values.median().item() if len(values) else 0.0


def small_output(outputs: Tensor, space: int, cells: int) -> Tensor | None:
    """An output [rows, channels, ...] or [rows, ...] on the cells of a small map."""
    maps = outputs.detach().float()
    maps = maps.unsqueeze(1) if maps.ndim == space + 1 else maps
    if maps.ndim != space + 2 or maps.shape[1] > MOST_CHANNELS or min(maps.shape[2:]) < 2:
        return None
    if space == 1:
        return functional.adaptive_avg_pool1d(maps, cells)
    return functional.adaptive_avg_pool2d(maps, (cells, cells))


def _first_of_each(maps: Tensor) -> list[int]:
    """An evaluation that comes again adds nothing."""
    return list({row.numpy().tobytes(): index for index, row in reversed(list(enumerate(maps)))}.values())[::-1]


def _features(maps: Tensor) -> Tensor:
    """Of each cell, such that turning a map turns them: [rows, features, ...], without brightness and layout."""
    dims = range(2, maps.ndim)
    pool = functional.avg_pool1d if maps.ndim == 3 else functional.avg_pool2d
    near = pool(maps, 3, 1, 1, count_include_pad=False)
    padded = functional.pad(maps, (1, 1) * len(dims), mode="replicate")
    slopes = []
    for dim in dims:
        cut = [slice(1, -1) if other != dim else slice(None) for other in dims]
        inner = padded[(slice(None), slice(None), *cut)]
        size = maps.shape[dim]
        slopes.append((inner.narrow(dim, 2, size) - inner.narrow(dim, 0, size)).square())
    slope = torch.stack(slopes).sum(0).sqrt()
    found = _without_layout(torch.cat([maps, near, slope], 1))
    return found / found.std([0, *dims], keepdim=True).clamp_min(1e-9)


def _without_layout(maps: Tensor) -> Tensor:
    maps = maps - maps.flatten(2).mean(2).reshape(*maps.shape[:2], *[1] * (maps.ndim - 2))
    return maps - maps.mean(0, keepdim=True)


def _orders(features: Tensor, targets: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    if features.ndim == 3:
        yield "reversed", features.flip(2), targets
    else:
        for name, (exchanged, flipped) in _TURNS.items():
            turned = features.transpose(2, 3) if exchanged else features
            yield name, turned.flip(flipped) if flipped else turned, targets


def _correlation(features: Tensor, targets: Tensor) -> float:
    """Of the targets with what a ridge regression on the other half of the rows predicts; that of the worse half."""
    half = torch.arange(len(features)) % 2 == 0
    found = []
    for side in (half, ~half):
        x, y = _cells(features[side]), _cells(targets[side])
        weights = torch.linalg.solve(x.T @ x + 1e-2 * len(x) * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)
        predicted, actual = (_cells(features[~side]) @ weights)[:, 0], _cells(targets[~side])[:, 0]
        norm = predicted.norm() * actual.norm()
        found.append((predicted @ actual / norm).item() if norm > 0 else 0.0)
    return min(found)


def _cells(maps: Tensor) -> Tensor:
    return maps.flatten(2).transpose(1, 2).flatten(0, 1)
