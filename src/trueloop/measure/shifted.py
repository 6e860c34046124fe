"""Are targets the inputs of later positions? By equal values, along any dimension and in any one feature."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

__all__ = ["later_feature_along", "shifted_along"]

SHORTEST: Final = 4  # fewest positions of a sequence that show a shift by one
MATCHES: Final = 16  # fewest equal pairs of a target and the next input: fewer can be chance
FEATURES: Final = 64
FARTHEST: Final = 32  # positions from an input to its target
UNEXPLAINED: Final = 1e-7  # share of the variance of a scaled copy that is rounding


def shifted_along(given: Tensor, target: Tensor, shift: int, ignored: int = -100) -> int | None:
    """The dimension along which the target is the whole input that comes `shift` positions later."""
    if given.is_floating_point() != target.is_floating_point() or given.dim() == 0 or given.dtype == torch.bool:
        return None
    for time in (1, 0) if given.dim() > 1 else (0,):
        length = given.shape[time]
        if length < SHORTEST:
            continue
        if target.numel() == given.numel():
            targets = target.reshape(given.shape)
        elif target.numel() == given.narrow(time, 1, length - 1).numel():
            targets = target.reshape(*given.shape[:time], length - 1, *given.shape[time + 1 :])
        else:
            continue
        count = min(targets.shape[time], length - shift)
        now, later = targets.narrow(time, 0, count), given.narrow(time, shift, count)
        trivial = shift > 0 and torch.equal(targets, given.narrow(time, 0, targets.shape[time]))
        real = now != ignored
        if not trivial and int(real.sum()) >= MATCHES and bool((now == later)[real].all()) and _is_varied(later[real]):
            return time
    return None


def later_feature_along(given: Tensor, target: Tensor) -> int | None:
    """The dimension of time, if each target is one feature of the input at a later position, perhaps scaled."""
    if not given.is_floating_point() or not target.is_floating_point() or given.dim() < 2:
        return None
    targets = target.squeeze(-1) if target.dim() == 3 and target.shape[-1] == 1 else target
    targets = targets.squeeze(1) if targets.dim() == 3 and targets.shape[1] == 1 else targets
    if targets.dim() != 2 or targets.shape[0] != given.shape[0]:
        return None
    for time, features in _layouts(given):
        length = features.shape[1]
        if length < SHORTEST or targets.shape[1] not in (length, length - 1):
            continue
        if any(_is_later(features[:, :, number], targets) for number in range(features.shape[2])):
            return time
    return None


def _layouts(given: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each reading of the input as samples, time and features."""
    if given.dim() == 2:
        yield 1, given[:, :, None]
    elif given.dim() == 3:
        if given.shape[2] <= FEATURES:
            yield 1, given
        if given.shape[1] <= FEATURES:
            yield 2, given.transpose(1, 2)


def _is_later(series: Tensor, targets: Tensor) -> bool:
    length = series.shape[1]
    for ahead in range(1, min(length // 2, FARTHEST) + 1):
        count = min(targets.shape[1], length - ahead)
        now, later = targets[:, :count].flatten().double(), series[:, ahead : ahead + count].flatten().double()
        if now.numel() < MATCHES or not bool(now.isfinite().all() & later.isfinite().all()):
            return False
        left = _unexplained(now, later)
        if left is not None and left < UNEXPLAINED:
            present = _unexplained(targets[:, :count].flatten().double(), series[:, :count].flatten().double())
            return present is not None and present > 1000 * UNEXPLAINED
    return False


def _unexplained(one: Tensor, other: Tensor) -> float | None:
    """The share of the variance that one is not a scaled copy of the other."""
    one, other = one - one.mean(), other - other.mean()
    power = float((one @ one) * (other @ other))
    return None if power <= 1e-18 else 1 - float(one @ other) ** 2 / power


def _is_varied(values: Tensor) -> bool:
    return bool(values.max() > values.min())
