"""Sizes, bandwidths, times and shapes as they are typed: 80GB, 24GiB, 600GB/s, 25Gb/s, 45ms, 3x224x224. For
argparse."""

import argparse
import math
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["bandwidth", "duration", "shape", "size"]

_DECIMAL: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY: Final = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_PREFIXES: Final[Mapping[str, float]] = {"": 1.0, **_DECIMAL, **_BINARY}
_TIMES: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER: Final = r"[0-9][0-9_]*\.?[0-9]*(?:e[0-9]+)?|\.[0-9]+"
_QUANTITY: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zµ]*?)(/s|ps)?\s*", re.IGNORECASE)


def size(text: str) -> float:
    """Bytes: GB is 10^9, GiB 2^30."""
    number, unit, per_second = _parts(text)
    factor = _prefix(unit, "B")
    if number is None or factor is None or per_second:
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: expected a size such as 80GB or 24GiB")
    return number * factor


def bandwidth(text: str) -> float:
    """Bytes per second: B is a byte, b (or bit) a bit."""
    number, unit, per_second = _parts(text)
    in_bytes, in_bits = _prefix(unit, "B"), _prefix(unit.removesuffix("it"), "b")
    if number is None or not per_second or (in_bytes is None and in_bits is None):
        raise argparse.ArgumentTypeError(
            f"cannot be {text!r}: expected a bandwidth such as 600GB/s, or 25Gb/s for bits"
        )
    return number * in_bytes if in_bytes is not None else number * (in_bits or 0.0) / 8


def duration(text: str) -> float:
    """Seconds."""
    number, unit, per_second = _parts(text)
    if number is None or unit not in _TIMES or per_second:
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: expected a time such as 45ms or 1.2s")
    return number * _TIMES[unit]


def shape(text: str) -> tuple[tuple[int, ...], str]:
    """Sizes and dtype: 3x224x224 (float32), 1024:int64."""
    sizes, _, dtype = text.partition(":")
    if not all(each.isdecimal() and int(each) for each in sizes.split("x")) or dtype not in ("", "float32", "int64"):
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: expected a shape such as 3x224x224 or 1024:int64")
    return tuple(map(int, sizes.split("x"))), dtype or "float32"


def _parts(text: str) -> tuple[float | None, str, bool]:
    """(a number above zero, its unit, is it per second)"""
    found = _QUANTITY.fullmatch(text)
    number = float(found[1].replace("_", "")) if found else 0.0
    if found is None or not 0.0 < number < math.inf:
        return None, "", False
    return number, found[2], bool(found[3])


def _prefix(unit: str, letter: str) -> float | None:
    """The factor of the letters before the B, or the b."""
    return _PREFIXES.get(unit[:-1].lower()) if unit.endswith(letter) else None
