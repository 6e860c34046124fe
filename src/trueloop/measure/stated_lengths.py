"""Are lengths of padded sequences, as they are used, in the unit of the positions?"""

from typing import Final, NamedTuple

import numpy
import torch
from torch import Tensor

from trueloop.measure.correlation import correlation_of_arrays
from trueloop.measure.wrong_lengths import PADDED, SHORTEST, padded_rows

__all__ = ["MOST_ROWS", "Unit", "ends_of_content", "unit_of"]

MOST_ROWS: Final = 400
LEAST_ROWS: Final = 60
DISTINCT: Final = 6  # lengths
RARELY: Final = 0.1  # of the content looks like padding
NEARLY_ALL: Final = 0.98  # of the rows
FACTOR: Final = 1.5
FEWEST: Final = 4  # lengths that count something larger, such as sentences
LARGER: Final = 3.0  # positions for one of these, at least
WITHIN: Final = 1.6  # times more or fewer positions than usual
RELATED: Final = 0.6  # correlation: a part of a sequence that is given on purpose has any share of it


class Unit(NamedTuple):
    rows: int
    factor: float  # positions for one of the length
    length: float  # in the median
    end: float  # of the content, in the median


def ends_of_content(padded: Tensor) -> Tensor | None:
    """Where the content of each row of [rows, positions, features] ends; None if too few rows are padded. A vector of
    the content may look like padding: that these are lengths is known here, as it is not of a file."""
    if len(padded) < 2 or padded.shape[1] < SHORTEST:
        return None
    found = padded_rows(padded.cpu().float().numpy())
    return torch.from_numpy(found.ends) if found.share >= PADDED and found.alike <= RARELY else None


def unit_of(lengths: Tensor, ends: Tensor) -> Unit | None:
    """The unit of lengths that are too short in nearly all rows, by a constant factor, or by a large one that varies
    little; None if there is none."""
    stated, real = (values.double().numpy() for values in (lengths, ends))
    if len(stated) < LEAST_ROWS or len(numpy.unique(real)) < DISTINCT or (stated < real).mean() < NEARLY_ALL:
        return None
    median = float(numpy.median(stated)), float(numpy.median(real))
    if len(numpy.unique(stated)) >= DISTINCT:
        factor, offset = (float(value) for value in numpy.polyfit(stated, real, 1))
        fits = numpy.abs(real - factor * stated - offset) <= max(1.0, factor)
        if factor >= FACTOR and abs(offset) <= 2 * factor and fits.mean() >= NEARLY_ALL:
            return Unit(len(stated), factor, *median)
    if len(numpy.unique(stated)) < FEWEST or stated.min() < 1:
        return None
    each = real / stated
    usual = float(numpy.median(each))
    near = numpy.abs(numpy.log(each / usual)) <= numpy.log(WITHIN)
    if usual < LARGER or near.mean() < NEARLY_ALL or correlation_of_arrays(stated, real) < RELATED:
        return None
    return Unit(len(stated), usual, *median)
