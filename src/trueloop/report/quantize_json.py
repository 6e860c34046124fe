"""A quantization as JSON: all its numbers, each layer's too."""

from __future__ import annotations

import json
from typing import Final

from trueloop.report.evidence import as_json
from trueloop.results.quantize import Quantization

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(told: Quantization) -> str:
    return json.dumps(as_json({"version": VERSION, **told.plain()}), indent=2, allow_nan=False) + "\n"
