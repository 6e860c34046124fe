"""Do rows of two parts of the data tell the same about their targets only after one is stretched along its axis?

The same sound at twice the sample rate, a spectrum with half as many samples in a frame, every second band: position n
of a row then means what position 2n means elsewhere. Compared is what each position tells about the targets (the
weights of a linear model of the rows on the targets), so that neither a change of classes nor of loudness decides.
"""

from typing import Final, NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool1d

from trueloop.measure.correlation import correlation
from trueloop.measure.tables import Table

__all__ = ["Stretch", "indicators", "stretch", "stretchable", "stretched_arrays"]

LEAST_ROWS: Final = 80
SHORTEST: Final = 24  # positions
LONGEST: Final = 8192
BANDS: Final = 256  # of a spectrum
NEAR: Final = 5  # bands that are averaged: a pure tone is in one
WAVE: Final = 200  # positions: shorter rows have no spectrum
MOST_TARGETS: Final = 32
MOST_CODES: Final = 24  # of a column
MOST_ROWS: Final = 512
FACTORS: Final = (2.0, 3.0, 4.0, 1.5, 44.1 / 16, 22.05 / 16)
FITS: Final = 0.8  # correlation of the weights after stretching
APART: Final = 0.4  # and before
RELIABLE: Final = 0.6  # of the weights of two halves of a part

Weights = Tensor  # [targets, positions]


class Stretch(NamedTuple):
    view: str  # values or spectrum
    factor: float  # a position of the other part is so much farther along the axis
    used: float  # correlation of the weights as they are
    fits: float  # after stretching


def indicators(targets: Tensor, classes: int) -> Tensor:
    """[n, classes] of class numbers from 0."""
    return torch.nn.functional.one_hot(targets.long(), classes).double()


def stretchable(rows: Tensor) -> dict[int, Tensor]:
    """Rows as [n, positions], along each axis that is long enough: means over the others."""
    if rows.ndim == 2:
        return {1: rows}
    axes = [axis for axis in range(1, rows.ndim) if rows.shape[axis] >= SHORTEST]
    return {axis: rows.mean([other for other in range(1, rows.ndim) if other != axis]) for axis in axes}


@torch.no_grad()
def stretch(rows: Tensor, targets: Tensor, others: Tensor, other_targets: Tensor) -> Stretch | None:
    """[n, positions] and [n, targets] of both parts."""
    if min(len(rows), len(others)) < LEAST_ROWS or rows.shape[1:] != others.shape[1:] or rows.ndim != 2:
        return None
    if not SHORTEST <= rows.shape[1] <= LONGEST or not 1 <= targets.shape[1] <= MOST_TARGETS:
        return None
    parts = [(r[:MOST_ROWS].double(), t[:MOST_ROWS].double()) for r, t in ((rows, targets), (others, other_targets))]
    if not all(bool(r.isfinite().all()) and bool(t.isfinite().all()) for r, t in parts):
        return None
    views = {"values": parts}
    if rows.shape[1] >= WAVE:
        views = {"spectrum": [(_spectrum(r), t) for r, t in parts]}
    for view, ((one, known), (other, known_there)) in views.items():
        found = _compared(one, known, other, known_there)
        if found is not None:
            return Stretch(view, *found)
    return None


def _spectrum(rows: Tensor) -> Tensor:
    """Logarithms of the power in bands, without the loudness of a row."""
    power = torch.fft.rfft(rows - rows.mean(1, keepdim=True)).abs().square()[:, 1:]
    step = -(-power.shape[1] // BANDS)
    bands = avg_pool1d(power[:, None], step)[:, 0]
    logs = (bands / bands.mean(1, keepdim=True).clamp_min(1e-12) + 1e-4).log()
    return avg_pool1d((logs - logs.mean(1, keepdim=True))[:, None], NEAR, 1, NEAR // 2)[:, 0]


def _compared(rows: Tensor, targets: Tensor, others: Tensor, there: Tensor) -> tuple[float, float, float] | None:
    shared = (targets.std(0) > 1e-9) & (there.std(0) > 1e-9)
    if not bool(shared.any()):
        return None
    one, other = _weights(rows, targets[:, shared]), _weights(others, there[:, shared])
    used = correlation(one, other)
    if used > APART:
        return None
    fits = {}
    for factor in FACTORS:
        fits[factor] = max(correlation(*_stretched(one, other, factor, at)) for at in (0.0, 0.5))
        fits[1 / factor] = max(correlation(*_stretched(other, one, factor, at)) for at in (0.0, 0.5))
    best = max(fits, key=lambda factor: fits[factor])
    if fits[best] < FITS or min(_reliable(rows, targets[:, shared]), _reliable(others, there[:, shared])) < RELIABLE:
        return None
    return best, used, fits[best]


def _weights(rows: Tensor, targets: Tensor) -> Weights:
    """Of a linear model that gives each position from the targets."""
    x, t = rows - rows.mean(0), targets - targets.mean(0)
    t = t / t.std(0).clamp_min(1e-9)
    eye = torch.eye(t.shape[1], dtype=torch.double)
    weights: Weights = torch.linalg.solve(t.T @ t + 0.01 * len(t) * eye, t.T @ x)
    return weights


def _reliable(rows: Tensor, targets: Tensor) -> float:
    return correlation(_weights(rows[::2], targets[::2]), _weights(rows[1::2], targets[1::2]))


def _stretched(one: Weights, other: Weights, factor: float, at: float) -> tuple[Weights, Weights]:
    """Position n of the first beside position `factor` * n of the other, as far as both reach. `at`: which point of a
    position; 0.5 is its middle."""
    count = int((one.shape[1] - 1) / factor) + 1
    places = (torch.arange(count) + at) * factor - at
    places = places.clamp_max(one.shape[1] - 1)
    low = places.floor().long()
    part = (places - low).double()
    high = (low + 1).clamp_max(one.shape[1] - 1)
    return one[:, :count], other[:, low] * (1 - part) + other[:, high] * part


def stretched_arrays(first: Table, second: Table) -> tuple[str, Stretch] | None:
    """The array of two files, and how it is stretched, by columns of codes and of yes and no that both have."""
    there = dict(second.arrays)
    for name, array in first.arrays:
        other = there.get(name)
        if other is None or array.ndim != 2 or array.shape[1] != other.shape[1] or array.shape[1] < SHORTEST:
            continue
        known = [_codes(table, name, second if table is first else first) for table in (first, second)]
        if known[0] is not None and known[1] is not None:
            found = stretch(_rows(array), known[0], _rows(other), known[1])
            if found is not None:
                return name, found
    return None


def _rows(array: NDArray[numpy.generic]) -> Tensor:
    return torch.from_numpy(array[:MOST_ROWS].astype(numpy.float64))


def _codes(table: Table, name: str, other: Table) -> Tensor | None:
    """Indicators of the codes in the columns of a table, except those of an array."""
    found = []
    for column in table.columns:
        there = other.column(column.name).numbers if column.name in other.names else None
        if column.numbers is None or there is None or column.name.startswith(f"{name}["):
            continue
        values = numpy.unique(numpy.concatenate([column.numbers, there]))
        if 2 <= len(values) <= MOST_CODES and (values == numpy.round(values)).all():
            codes = torch.from_numpy(numpy.searchsorted(values, column.numbers[:MOST_ROWS]))
            found.append(indicators(codes, len(values))[:, (1 if len(values) == 2 else 0) :])
    return torch.cat(found, 1) if found and sum(each.shape[1] for each in found) <= MOST_TARGETS else None
