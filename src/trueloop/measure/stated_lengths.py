"""Are lengths of padded sequences, as they are used, in the unit of the positions?"""

from typing import Final, NamedTuple

import numpy
import torch
from torch import Tensor

from trueloop.measure.wrong_lengths import PADDED, SHORTEST, padded_rows

__all__ = ["MOST_ROWS", "Unit", "ends_of_content", "unit_of"]

MOST_ROWS: Final = 400
LEAST_ROWS: Final = 60
DISTINCT: Final = 6  # lengths
RARELY: Final = 0.1  # of the content looks like padding
NEARLY_ALL: Final = 0.98  # of the rows
FACTOR: Final = 1.5


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
    """The unit of lengths that are too short in nearly all rows, by a constant factor; None if there is none."""
    stated, real = (values.double().numpy() for values in (lengths, ends))
    if len(stated) < LEAST_ROWS or min(len(numpy.unique(stated)), len(numpy.unique(real))) < DISTINCT:
        return None
    factor, offset = (float(value) for value in numpy.polyfit(stated, real, 1))
    fits = numpy.abs(real - factor * stated - offset) <= max(1.0, factor)
    if factor < FACTOR or abs(offset) > 2 * factor or fits.mean() < NEARLY_ALL or (stated < real).mean() < NEARLY_ALL:
        return None
    return Unit(len(stated), factor, float(numpy.median(stated)), float(numpy.median(real)))
