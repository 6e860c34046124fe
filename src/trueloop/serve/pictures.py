"""A PNG or JPEG as the array that the model takes. A small file can be a huge picture: its size is judged before
anything is decoded."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from trueloop.errors import MissingExtra
from trueloop.export.exporter import Array
from trueloop.serve.limits import Refused

__all__ = ["picture"]

FORMATS: Final = ("PNG", "JPEG")
"""What is decoded at all: pillow knows dozens of formats, each a parser that a stranger could reach."""
MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}
FULL: Final = 255
"""The brightest point of a file with 8 bits."""
NARROW: Final = 127
"""Raw values that never exceed this are no 8 bits of brightness (digits go to 16): a file's are scaled to them. Above
it, the brightest point of a few samples may have been 254 by chance."""


def picture(data: bytes, preprocessing: Mapping[str, Any], *, pixels: int, resize: bool) -> Array:
    """[channels, height, width], uint8. Raises Refused."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtra("Pictures need pillow, which is not installed: pip install 'trueloop[serve]'") from None

    height, width = preprocessing["size"]
    too_large = Refused(422, f"The picture has more points than this server decodes, {pixels:,}.")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > pixels:
                raise too_large
            turned = ImageOps.exif_transpose(opened)
            found = turned.convert(MODES[preprocessing["channels"]])
    except (Refused, Image.DecompressionBombError):
        raise too_large from None
    except Exception:  # noqa: BLE001 - whatever pillow stumbles over in a stranger's file, the file is at fault
        raise Refused(422, "The picture cannot be read: it is no PNG or JPEG, or it is damaged or cut off.") from None
    if found.size != (width, height):
        if not resize:
            sizes = f"{found.width} x {found.height} and the model takes {width} x {height}"
            raise Refused(422, f"The picture is {sizes}: send it so, or ask for ?resize=true.")
        found = found.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return scaled(np.asarray(found), preprocessing)


def scaled(points: Array, preprocessing: Mapping[str, Any]) -> Array:
    """[height, width] or [height, width, channels] as the model's raw samples are."""
    channels_first = points[None] if points.ndim == 2 else np.moveaxis(points, -1, 0)
    brightest = preprocessing["range"][1]
    if brightest <= NARROW:
        channels_first = np.round(channels_first.astype(np.float32) * (brightest / FULL)).astype(np.uint8)
    return np.ascontiguousarray(channels_first)
