"""Is a table standardized exactly, by its own statistics, and over which axes? Pure functions of a stored table."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["EXACT", "Pooled", "Standard", "corrections", "holds_row", "in_groups", "over_channels", "standard"]

EXACT: Final = 1e-3  # mean and deviation of numbers that were standardized in single precision
DEVIATION: Final = 3e-5  # the same of a table, where one missing degree of freedom in 10,000 rows must show
FEWEST: Final = 8  # rows of a group
AWAY: Final = 0.5  # deviations: a mean that is not 0 by any rounding
CHANNELS: Final = 64
PIECE: Final = 2**17  # numbers that are copied in double precision at a time: this runs beside a training


class Standard(NamedTuple):
    rows: int
    columns: int
    centered: bool  # all columns have mean 0
    scaled: bool  # all columns have deviation 1, of either definition
    unbiased: bool  # the deviation with n - 1 is 1
    away: int  # columns with a mean that is not 0
    offset: float  # median of the means' sizes


class Pooled(NamedTuple):
    """One mean and deviation for each position, over the samples and their channels."""

    positions: int
    channels: int
    narrowest: tuple[int, float]  # channel, its deviation
    widest: tuple[int, float]


def standard(table: Tensor) -> Standard:
    """Of rows with columns."""
    means = torch.cat([part.double().mean(0).abs() for part in _columns(table)])
    deviations = torch.cat([part.double().std(0) for part in _columns(table)])
    factor = ((len(table) - 1) / len(table)) ** 0.5
    unbiased, biased = ((deviations * each - 1).abs().max().item() <= DEVIATION for each in (1.0, factor))
    return Standard(len(table), table.shape[1], means.max().item() <= EXACT, unbiased or biased, unbiased,
                    int((means >= AWAY).sum()), means.median().item())  # fmt: skip


def _columns(table: Tensor) -> Iterator[Tensor]:
    """In pieces of some columns."""
    yield from torch.split(table, max(1, PIECE // max(1, len(table))), 1)


def corrections(batch: Tensor) -> tuple[bool, bool]:
    """Is each column of a batch standardized by the batch itself: with n, with n - 1?"""
    if batch.mean(0).abs().max().item() > EXACT:
        return False, False
    squares = batch.double().square().sum(0)
    biased, unbiased = ((squares / n - 1).abs().max().item() <= EXACT for n in (len(batch), len(batch) - 1))
    return biased, unbiased


def in_groups(table: Tensor) -> bool:
    """The first rows, up to some row, are standardized by themselves, and so are the others."""
    counts = torch.arange(1, len(table) + 1, dtype=torch.double)[:, None]
    exact = torch.ones(len(table), dtype=torch.bool)
    for part in _columns(table):
        values = part.double()
        means, squares = values.cumsum(0).div_(counts), values.square().cumsum(0).div_(counts)
        exact &= (means.abs_() <= EXACT).all(1) & (squares.sub_(1).abs_() <= EXACT).all(1)
        if not bool(exact[FEWEST:-FEWEST].any()):
            return False
    return bool(exact[FEWEST:-FEWEST].any())


def over_channels(table: Tensor, axis: int) -> Pooled | None:
    """Of samples with positions and channels. `axis`: of the channels, 1 or 2."""
    if table.ndim != 3 or not 2 <= table.shape[axis] <= CHANNELS or table.shape[3 - axis] < 2:
        return None
    values = table.double()
    at_positions = values.movedim(3 - axis, 0).flatten(1)
    exact = at_positions.mean(1).abs().max() <= EXACT and (at_positions.std(1) - 1).abs().max() <= EXACT
    deviations = values.std(0).mean(2 - axis).tolist()  # of the samples, at one position
    ordered = sorted((each, index) for index, each in enumerate(deviations) if each > 0)
    if not bool(exact) or len(ordered) < 2:
        return None
    (small, narrow), (large, wide) = ordered[0], ordered[-1]
    return Pooled(table.shape[3 - axis], table.shape[axis], (narrow, small), (wide, large))


def holds_row(table: Tensor, row: Tensor) -> bool:
    """A row of the table has these numbers, perhaps in a different order of its axes."""
    flat, wanted = table.reshape(len(table), -1), row.reshape(-1).to(table.dtype)
    if flat.shape[1] != len(wanted):
        return False
    sums = torch.cat([part.double().sum(1) for part in torch.split(flat, max(1, PIECE // max(1, flat.shape[1])))])
    sought = wanted.double().sum()
    near = ((sums - sought).abs() <= EXACT * (1 + wanted.double().abs().sum())).nonzero()[:FEWEST, 0]
    ordered = wanted.sort().values
    found: Any = (flat[near].sort(1).values == ordered).all(1).any()
    return bool(found)
