"""Arrays as bytes, between a confined process and the one that asks it.

`unpack` takes bytes from anybody: plain numbers of a known type, whose shape fits their bytes.
"""

import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from trueloop.export.exporter import Array

__all__ = ["NotArrays", "pack", "unpack"]

_DTYPE: Final = re.compile(r"[<|][biufc](1|2|4|8|16|32)")
_ALIGNED: Final = 16  # Bytes: arrays are read where they lie
_SIZE: Final = struct.Struct("<Q")


class NotArrays(ValueError):
    """The text: what it is instead."""


def pack(arrays: Sequence[Array]) -> list[bytes | memoryview]:
    """The size of a table, the table (type and shape of each array), and their bytes, each aligned."""
    for array in arrays:
        if not _DTYPE.fullmatch(array.dtype.str):
            raise NotArrays(f"values of type {array.dtype}")
    table = json.dumps([[array.dtype.str, list(array.shape)] for array in arrays]).encode()
    table += b" " * (-(_SIZE.size + len(table)) % _ALIGNED)
    parts: list[bytes | memoryview] = [_SIZE.pack(len(table)) + table]
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        parts += [data.data, bytes(-data.nbytes % _ALIGNED)]
    return parts


def unpack(data: memoryview, most: int) -> list[Array]:
    """At most so many arrays, which share the bytes. Raises ValueError for bytes that `pack` did not write."""
    try:
        (size,) = _SIZE.unpack(data[: _SIZE.size])
        table, at, arrays = json.loads(bytes(data[_SIZE.size : _SIZE.size + size])), _SIZE.size + size, []
        if len(table) > most:
            raise NotArrays(f"{len(table):,} arrays instead of {most}")
        for name, shape in table:
            if not _DTYPE.fullmatch(name) or not all(type(each) is int and each >= 0 for each in shape):
                raise NotArrays("values that are not numbers")
            dtype, count = np.dtype(name), math.prod(shape)
            array = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
            arrays.append(array.reshape(shape))
            at += array.nbytes + -array.nbytes % _ALIGNED
    except NotArrays:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error):
        raise NotArrays("something that is not arrays") from None
    return arrays
