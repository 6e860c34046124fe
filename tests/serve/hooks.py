"""For schemathesis, which loads this file: how to make a picture, which a schema cannot say."""

from __future__ import annotations

import base64

import schemathesis
from hypothesis import strategies

from tests.serve.made import png
from trueloop.serve.openapi import PICTURE

shades = strategies.integers(0, 255)
schemathesis.openapi.format(PICTURE, shades.map(lambda value: base64.b64encode(png(value)).decode()))
schemathesis.openapi.format("binary", shades.map(png))
schemathesis.openapi.media_type("image/png", shades.map(png))
schemathesis.openapi.media_type("image/jpeg", shades.map(lambda value: png(value, form="JPEG")))
