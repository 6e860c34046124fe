"""Sizes, bandwidths and times as they are typed: 80GB, 24GiB, 600GB/s, 25Gb/s, 45ms. What cannot be read is refused
with what to type."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from trueloop.errors import Misuse

__all__ = ["bandwidth", "duration", "size"]

_DECIMAL: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY: Final = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_PREFIXES: Final[Mapping[str, float]] = {"": 1.0, **_DECIMAL, **_BINARY}
_TIMES: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_WRITTEN: Final = re.compile(r"\s*([0-9][0-9_]*\.?[0-9]*(?:e[0-9]+)?|\.[0-9]+)\s*([a-zµ]*?)(/s|ps)?\s*", re.IGNORECASE)


def size(text: str, option: str, undone: str = "planned") -> float:
    """Bytes: GB are 10^9, GiB 2^30."""
    number, unit, per_second = _parts(text)
    factor = _prefix(unit, "B")
    if number is None or factor is None or per_second:
        raise Misuse(f"{option} {text!r} is no size. Nothing was {undone}: write {option} 80GB, or 24GiB.")
    return number * factor


def bandwidth(text: str, option: str) -> float:
    """Bytes per second: B are bytes, b (and bit) are bits, eight of which are a byte."""
    number, unit, per_second = _parts(text)
    in_bytes, in_bits = _prefix(unit, "B"), _prefix(unit.removesuffix("it"), "b")
    if number is None or not per_second or (in_bytes is None and in_bits is None):
        raise Misuse(
            f"{option} {text!r} is no bandwidth. Nothing was planned: write {option} 600GB/s, or 25Gb/s for bits."
        )
    return number * in_bytes if in_bytes is not None else number * (in_bits or 0.0) / 8


def duration(text: str, option: str, undone: str = "planned") -> float:
    """Seconds."""
    number, unit, per_second = _parts(text)
    if number is None or unit not in _TIMES or per_second:
        raise Misuse(f"{option} {text!r} is no time. Nothing was {undone}: write {option} 45ms, or 1.2s.")
    return number * _TIMES[unit]


def _parts(text: str) -> tuple[float | None, str, bool]:
    """(a number above zero, its unit, is it one of a second)"""
    found = _WRITTEN.fullmatch(text)
    number = float(found[1].replace("_", "")) if found else 0.0
    if found is None or not 0.0 < number < math.inf:
        return None, "", False
    return number, found[2], bool(found[3])


def _prefix(unit: str, letter: str) -> float | None:
    """What the letters before the B, or the b, stand for."""
    return _PREFIXES.get(unit[:-1].lower()) if unit.endswith(letter) else None
