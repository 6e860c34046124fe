"""Does a sample have the order of its numbers in memory that its shape says?"""

from typing import Final

import torch
from torch import Tensor

from trueloop.event import MemoryOrder

__all__ = ["order_in_memory"]

LEAST_ROWS: Final = 16
LEAST_NUMBERS: Final = 32  # in a sample
MOST_ROWS: Final = 64
MOST_CHANNELS: Final = 64
LEAST_LENGTH: Final = 3  # positions of a channel, in channels
LEAST: Final = 0.2  # correlation of numbers one period apart
ABOVE: Final = 0.12  # by which it exceeds that of their neighbors
OPPOSITE: Final = -0.3  # a correlation below this is a wave whose period is the number of channels
SMOOTH: Final = 0.4  # mean square change from one number to the next, over the variance
JUMP: Final = 4.0  # times that
ACROSS: Final = 0.6  # of that correlation: left between the end of one channel and the start of the next


@torch.no_grad()
def order_in_memory(rows: Tensor) -> MemoryOrder | None:
    """The order of the numbers of the samples, if it is not that of their shape: [channels, time], [time, channels] or
    [channels, height, width]. A reshape instead of a transpose leaves such samples."""
    first = rows.shape[1] if rows.ndim in (3, 4) else 0
    length = rows[0, 0].numel() if first else 0
    if min(first, length) < 2 or len(rows) < LEAST_ROWS or first * length < LEAST_NUMBERS:
        return None
    flat = rows[:: -(-len(rows) // MOST_ROWS)].detach().float().reshape(-1, first * length)
    if not bool(flat.isfinite().all()):
        return None
    if rows.ndim == 4:
        return _image(flat, first, rows.shape[3]) if first <= MOST_CHANNELS else None
    if first <= MOST_CHANNELS and length >= LEAST_LENGTH * first:
        return _channels_first(flat, first, length)
    return _channels_last(flat, first, length) if length <= MOST_CHANNELS and first >= LEAST_LENGTH * length else None


def _channels_first(flat: Tensor, channels: int, length: int) -> MemoryOrder | None:
    """In memory, neighbors of a channel-first sample are neighbors in time, and most alike. Here numbers are most alike
    at a distance of the number of channels, and of twice that, also from the end of one channel to the start of the
    next. What repeats exactly at that distance is taken away first: a series may have that period."""
    scaled = _scaled(flat - flat.reshape(len(flat), length, channels).mean(1).repeat(1, length))
    if len(scaled) < LEAST_ROWS:
        return None
    related = [1.0] + [_related(scaled, lag) for lag in range(1, 2 * channels + 2)]
    one, two = related[channels], related[2 * channels]
    beside = [related[lag] for lag in (1, channels - 1, channels + 1) if lag % channels]
    if one < LEAST or one - max(beside) < ABOVE or min(related) < OPPOSITE:
        return None
    if two - max(related[2 * channels - 1], related[2 * channels + 1]) < ABOVE / 2:
        return None
    across = _across(scaled, channels, length)
    return MemoryOrder(channels, True, one, related[1]) if across >= ACROSS * one else None


def _image(flat: Tensor, channels: int, width: int) -> MemoryOrder | None:
    """The number below a number is one width away in memory. Here it is as many widths away as there are channels."""
    scaled = _scaled(flat - flat.mean(1, keepdim=True))
    if len(scaled) < LEAST_ROWS or width < 4 or (2 * channels + 1) * width > scaled.shape[1] // 2:
        return None
    below = [_related(scaled, rows * width) for rows in range(1, 2 * channels + 2)]
    one, two = below[channels - 1], below[2 * channels - 1]
    if one < LEAST or one - max(below[: channels - 1]) < ABOVE or min(below) < OPPOSITE:
        return None
    if two - max(below[2 * channels - 2], below[2 * channels]) < ABOVE / 4:
        return None
    across = _across(scaled, channels * width, flat.shape[1] // channels)
    return MemoryOrder(channels, True, one, below[0]) if across >= ACROSS * one else None


def _channels_last(flat: Tensor, steps: int, channels: int) -> MemoryOrder | None:
    """A sample [time, channels] whose numbers change little from one to the next in memory, also from one time step to
    the next, and jump after as many numbers as there are time steps: there the next channel begins."""
    scaled = _scaled(flat - flat.mean(1, keepdim=True))
    if len(scaled) < LEAST_ROWS:
        return None
    jumps = (scaled[:, 1:] - scaled[:, :-1]).square().mean(0)
    after = torch.arange(1, len(jumps) + 1)
    ends, cuts = after % steps == 0, after % channels == 0
    plain = jumps[~ends & ~cuts].mean().item()
    if plain > SMOOTH or jumps[ends].mean() < JUMP * plain or jumps[cuts & ~ends].mean() > 1.5 * plain:
        return None
    return MemoryOrder(channels, False, 1 - plain / 2, _related(scaled, channels))


def _across(scaled: Tensor, lag: int, length: int) -> float:
    """The correlation of numbers so far apart, of which one is in the next channel."""
    position = torch.arange(scaled.shape[1] - lag)
    crosses = position // length != (position + lag) // length
    return (scaled[:, :-lag][:, crosses] * scaled[:, lag:][:, crosses]).mean().item()


def _scaled(flat: Tensor) -> Tensor:
    spread = flat.std(1, keepdim=True)
    return (flat / spread.clamp_min(1e-6))[spread[:, 0] > 1e-6]


def _related(flat: Tensor, lag: int) -> float:
    return (flat[:, :-lag] * flat[:, lag:]).mean().item()
