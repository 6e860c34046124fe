"""A PNG or JPEG -> the array that the model takes. Its size is checked before it is decoded."""

import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from trueloop.errors import MissingExtra
from trueloop.export.exporter import Array
from trueloop.serve.limits import Refused

__all__ = ["MODES", "picture", "scaled"]

FORMATS: Final = ("PNG", "JPEG")  # Pillow has dozens of other decoders, each of them an attack surface
MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}
FULL: Final = 255
NARROW: Final = 127
"""Raw values up to this are not 8-bit brightness (the digits go to 16), so pixels are scaled to them. Above it, the
brightest pixel of a few samples may be 254 by chance."""


def picture(data: bytes, preprocessing: Mapping[str, Any], *, pixels: int, resize: bool) -> Array:
    """[channels, height, width], uint8. Raises Refused."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtra("Images need pillow, which is not installed: pip install 'trueloop[serve]'") from None

    height, width = preprocessing["size"]
    too_large = Refused(422, f"The image has more than {pixels:,} pixels, the limit of this server.")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > pixels:
                raise too_large
            image = ImageOps.exif_transpose(opened).convert(MODES[preprocessing["channels"]])
    except (Refused, Image.DecompressionBombError):
        raise too_large from None
    except Exception:  # noqa: BLE001 - any error of pillow means that the file is bad
        raise Refused(422, "The image cannot be read: not a PNG or JPEG, damaged, or truncated.") from None
    if image.size != (width, height):
        if not resize:
            sizes = f"{image.width} x {image.height} and the model takes {width} x {height}"
            raise Refused(422, f"The image is {sizes}: resize it, or add ?resize=true.")
        image = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return scaled(np.asarray(image), preprocessing)


def scaled(points: Array, preprocessing: Mapping[str, Any]) -> Array:
    """[height, width] or [height, width, channels] -> the layout and range of the model's raw samples."""
    channels_first = points[None] if points.ndim == 2 else np.moveaxis(points, -1, 0)
    brightest = preprocessing["range"][1]
    if brightest <= NARROW:
        channels_first = np.round(channels_first.astype(np.float32) * (brightest / FULL)).astype(np.uint8)
    return np.ascontiguousarray(channels_first)
