"""Raw values of pixels, without torch: a server needs no more of images."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["match_range"]

FULL: Final = 255
NARROW: Final = 127
"""Raw values up to this are not 8-bit brightness (the digits go to 16), so pixels are scaled to them. Above it, the
brightest pixel of a few samples may be 254 by chance."""


def match_range(pixels: npt.NDArray[Any], brightest: int) -> npt.NDArray[Any]:
    """Pixels from 0 to 255, scaled to the raw values of the training data where these are not 8-bit brightness."""
    if brightest > NARROW:
        return pixels
    return np.round(pixels.astype(np.float32) * (brightest / FULL)).astype(np.uint8)
