"""How an explanation is worded: how places, tensors and sizes are written in it.

An explanation is a few short sentences with this run's numbers. A kind that is not certain says less, or nothing.
"""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from torch import Tensor, nn

from trueloop.event import Place
from trueloop.results.check import CrashExplanation
from trueloop.usercode.source import shown_place

__all__ = ["Explanation", "article", "described", "factors", "size", "spot", "written", "written_layer"]

Explanation: TypeAlias = CrashExplanation  # Defined in results/, because reports show it and may not import torch


def spot(place: Place | None) -> str:
    """`train.py:21`."""
    return shown_place(place) if place else "?"


def written(dimensions: Sequence[int]) -> str:
    """`[64, 400]`."""
    return str([int(dimension) for dimension in dimensions])


def described(value: object) -> str:
    """`float32 [64, 400]`, with the device unless it is the CPU; a container with its contents."""
    if isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{kind} {written(value.shape)}{where}"
    if isinstance(value, (tuple, list)):
        inside = ", ".join(described(part) for part in value[:3]) + (", …" if len(value) > 3 else "")
        return f"a {type(value).__name__} of {len(value)} ({inside})"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(map(repr, list(value)[:4]))}{', …' if len(value) > 4 else ''}"
    return "None" if value is None else f"{article(type(value).__name__)} {type(value).__name__}"


def factors(dimensions: Sequence[int]) -> str:
    """`16*5*5 = 400`."""
    return f"{'*'.join(str(int(d)) for d in dimensions)} = {prod(int(d) for d in dimensions)}"


def size(count: float) -> str:
    """Bytes with a unit: `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.3g} TiB" if count < 1000 else f"{count:,.0f} TiB"


def article(noun: str) -> str:
    """An LSTM, a GRU: letters that sound like vowels when a name is spelled out count too."""
    vowel = noun[:1] in "AEIOUaeio" or (noun[1:2].isupper() and noun[:1] in "FHLMNRSX")
    return "an" if vowel else "a"


def written_layer(module: nn.Module) -> str:
    """A layer as the user writes it: `Linear(256, 120)`, `Conv2d(3, 8)`; only the class if it has no such sizes."""
    name = type(module).__name__
    pairs = (("in_features", "out_features"), ("in_channels", "out_channels"), ("num_embeddings", "embedding_dim"))
    for first, second in pairs:
        numbers = (getattr(module, first, None), getattr(module, second, None))
        if all(isinstance(number, int) for number in numbers):
            return f"{name}({numbers[0]}, {numbers[1]})"
    only = getattr(module, "num_features", None)
    return f"{name}({only})" if isinstance(only, int) else name
