"""Rows of tensors by their content: digests of whole rows, and of stretches of numbers inside them."""

from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

__all__ = ["STRETCH", "as_features", "digests", "later_windows", "stretches", "uniform_batches"]

STRETCH: Final = 4  # numbers in a row
FEATURES: Final = 8  # of a row that are read, evenly spread
SHORTEST: Final = 16  # numbers in a window that is compared by values
SHIFTS: Final = 256
CLOSE: Final = 0.005  # mean squared difference of two stretches, as a share of their variance
OFTEN: Final = 0.02  # of the numbers: a code for "missing" far outside the others is alike in all windows
CLOSER: Final = 0.1  # than the nearest window that is not shifted: a periodic series has those too
PAIRS: Final = 6  # pairs of windows at one shift: fewer than that, and any pair fits the others
FITS: Final = 3
EQUAL: Final = 1e-10  # mean squared difference as a share of the variance: rounding of 32-bit numbers is far below
SEVERAL: Final = 8  # rows of a batch
PIECE: Final = 1 << 17  # numbers that are copied at a time
_ODD: Final = 0x9E3779B97F4A7C15 - 2**64
_MIXING: Final = 0xBF58476D1CE4E5B9 - 2**64


def digests(rows: Tensor) -> list[int]:
    """One number per row: equal for rows with equal bits, whatever the batch. Integer arithmetic, so it is exact."""
    found: list[int] = _mixed(rows).tolist()
    return found


def uniform_batches(batches: list[Tensor]) -> tuple[int, int]:
    """How many batches have equal rows only, and how many have enough rows to tell."""
    several = [batch for batch in batches if len(batch) >= SEVERAL]
    return sum(bool((batch == batch[:1]).all()) for batch in several), len(several)


def _mixed(rows: Tensor) -> Tensor:
    if rows.numel() > 2 * PIECE and len(rows) > 1:
        return torch.cat([_mixed(part) for part in torch.split(rows, max(1, PIECE * len(rows) // rows.numel()))])
    flat = rows.detach().reshape(rows.shape[0], -1)
    # + 0.0: the two zeros are equal
    if flat.dtype.is_floating_point:
        floats = flat.float() + 0.0
        floats = torch.nn.functional.pad(floats, (0, 1)) if flat.shape[1] % 2 else floats
        pairs = floats.contiguous().view(torch.int64)  # two numbers at once: this runs beside small models, often
        bits = pairs.bitwise_xor_(pairs >> 29)  # round numbers end in zeros; in place: `floats` is a copy
    else:
        bits = flat.long() if flat.dtype != torch.int64 else flat.clone()
    return bits.mul_(_factors(bits.shape[1]).to(flat.device)).sum(1)


@lru_cache(maxsize=64)
def _factors(count: int) -> Tensor:
    """An odd pseudo-random number for each place in a row."""
    numbers = torch.arange(1, count + 1, device="cpu") * _ODD
    numbers = (numbers ^ (numbers >> 30)) * _MIXING
    return (numbers ^ (numbers >> 27)) * _ODD | 1


def stretches(rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each row of [rows, time] or [rows, time, features]: digests of every four steps (0: fewer than three numbers
    of the first feature are different), and the last four numbers of the first feature. Empty for short rows.

    All features count: a tide, or the time of day, comes back at other times. A feature that is equal in all rows tells
    the position in the window, and does not count."""
    features = as_features(rows.detach())
    series = features[:, :, 0]
    if series.shape[1] < 2 * STRETCH:
        return torch.empty(0, 1, dtype=torch.int64), series[:0]
    pieces = series.unfold(1, STRETCH, 1)
    ordered = pieces.sort(2).values
    varied = ((ordered[:, :, 1:] != ordered[:, :, :-1]).sum(2) >= 2) & pieces.isfinite().all(2)
    if features.shape[2] > 1:
        positions = (features == features[:1]).flatten(0, 1).all(0)
        counted = features if len(rows) == 1 else features.masked_fill(positions, 0)
        pieces = counted.unfold(1, STRETCH, 1).flatten(2)
    found = _mixed(pieces.flatten(0, 1)).reshape(varied.shape)
    return found * varied, series[:, -STRETCH:]


def as_features(rows: Tensor) -> Tensor:
    """[rows, time, features] of [rows, time], of [rows, channels, time] and of itself: the first feature and others."""
    if rows.ndim == 2:
        return rows[:, :, None]
    features = rows.transpose(1, 2) if rows.shape[2] > 2 * rows.shape[1] else rows
    return features[:, :, :: -(-features.shape[2] // FEATURES)]


def later_windows(rows: Tensor, others: Tensor) -> int:
    """How many rows end inside a window among `others` that begins later in the same series, at the shift where most
    do.

    Compared by value, so that windows that were normalized column by column are still recognized: at one shift, the
    numbers of all these pairs are then equal up to one scale and one offset of each column. Curves of one family
    (sines of any phase) come close to one another at every shift, but never equal.
    """
    width = rows.shape[1]
    if width < SHORTEST or len(others) < 2:
        return 0
    rows, others = _standardized(rows.double(), others.double())
    if _has_code(torch.cat([rows, others])[:, :, 0]):
        return 0
    unshifted = _distances(rows.flatten(1), others.flatten(1))
    near = torch.where(unshifted > 0, unshifted, torch.inf).amin(1) / rows[0].numel()
    most = 0
    for shift in range(1, min(SHIFTS, width - max(SHORTEST // 2, width // 4)) + 1):
        ends, starts = rows[:, shift:].flatten(1), others[:, :-shift].flatten(1)
        found, nearest = (_distances(ends, starts) / ends.shape[1]).min(1)
        close = (found < CLOSE * ends.var(1)) & (found < CLOSER * near)
        if int(close.sum()) > max(most, PAIRS):
            most = max(most, _equal_pairs(ends[close], starts[nearest[close]], found[close]))
    return most


def _standardized(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Features of one size, without features that tell nothing, or only the position in the window. The first one stays
    as it is."""
    first = others[:, :, :1]
    spread = others.std(0).mean(0) / first.std(0).mean().clamp_min(torch.finfo(first.dtype).tiny)
    kept = (spread > 0) & spread.isfinite()
    kept[0] = True
    spread[0] = 1
    return rows[:, :, kept] / spread[kept], others[:, :, kept] / spread[kept]


def _equal_pairs(rows: Tensor, others: Tensor, distances: Tensor) -> int:
    """How many pairs are equal, up to a scale and an offset of each column that most pairs have in common."""
    apart = distances
    for _ in range(FITS):
        typical = apart <= apart.median()
        left, right = others[typical], rows[typical]
        middle = left.mean(0)
        scale = ((left - middle) * right).sum(0) / (left - middle).square().sum(0).clamp_min(
            torch.finfo(left.dtype).tiny
        )
        apart = (rows - right.mean(0) - scale * (others - middle)).square().mean(1)
    return int((apart < EQUAL * rows.var(1)).sum())


def _has_code(numbers: Tensor) -> bool:
    """Is one number frequent, and farther from all others than these are from each other?"""
    for code in (numbers.amin(), numbers.amax()):
        equal = numbers == code
        others = numbers[~equal]
        if len(others) and equal.double().mean() > OFTEN:
            low, high = others.aminmax()
            if max(code - high, low - code) > high - low:
                return True
    return False


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """Squared distances of every row to every other one."""
    return (rows.square().sum(1)[:, None] + others.square().sum(1) - 2 * rows @ others.T).clamp_min(0)
