"""Copies that a line of the user's makes: `contiguous()`, a `reshape` that cannot be a view, `.to`, `clone`, indexing.

A view costs nothing and looks the same in the source. The operations of the counted step show which one it was. The
copy of a batch to the device is necessary, and so are the casts of autocast: they are not listed.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.event import Place
from trueloop.results.profile import SilentCopy
from trueloop.taps.place import UNSEEN, here, is_users
from trueloop.torch_private.autograd import forward_number, node_number
from trueloop.torch_private.dispatch import MODE_FRAMES, operator_packet
from trueloop.usercode.source import line_of

__all__ = ["Copies"]

RESHAPES: Final = ("reshape", "flatten", "ravel", "unflatten", "einsum")
CASTS: Final = (
    *("to", "float", "half", "double", "bfloat16", "type", "type_as", "long", "int", "bool"),
    *("cpu", "cuda", "numpy", "tolist", "item"),
)
"""Words of a line that asks for such a copy itself."""
OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@final
class Copies:
    """Fed with every operation of one step."""

    def __init__(self) -> None:
        self.bytes: Counter[tuple[Place, str, bool]] = Counter()  # By line, kind, and whether in the backward
        self.calls: Counter[tuple[Place, str, bool]] = Counter()
        self._forward: dict[int, Place | None] = {}  # The line that made a node of the graph, for its backward
        self._last: tuple[int, tuple[Place, str, bool], int] | None = None  # The last clone: storage, key, bytes

    def see(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, moved: int) -> None:
        """`moved`: the bytes that the operation reads and writes."""
        node = node_number()
        if node is None:
            place = here(2)
            self._forward.setdefault(forward_number(), place)  # the first operation of a number made the node
        else:
            place = self._forward.get(node)
        name = operator_packet(func).__name__
        if name == "_unsafe_view":
            self._was_reshape(args[0])
            return
        self._last = None
        if place is None or not isinstance(out, Tensor) or not args or not isinstance(args[0], Tensor):
            return
        how = _kind(name, args[0], kwargs, out, place)
        if how:
            key = (place, how, node is not None)
            self.bytes[key] += moved
            self.calls[key] += 1
            if name == "clone":
                self._last = (out.untyped_storage().data_ptr(), key, moved)

    def _was_reshape(self, source: Tensor) -> None:
        """clone and then a view of it: `reshape` of a tensor that cannot be viewed in that shape."""
        if self._last is None or self._last[0] != source.untyped_storage().data_ptr():
            return
        _, key, moved = self._last
        self._last = None
        self._move(key, (key[0], "reshape() that cannot be a view", key[2]), moved)

    def _move(self, key: tuple[Place, str, bool], to: tuple[Place, str, bool], moved: int) -> None:
        for counter, amount in ((self.bytes, moved), (self.calls, 1)):
            counter[key] -= amount
            counter[to] += amount

    def found(self, traffic: int) -> tuple[SilentCopy, ...]:
        """The largest first. `traffic`: bytes of the whole step."""
        return tuple(
            SilentCopy(
                place,
                how if backward else _described(place, how),
                backward,
                self.calls[place, how, backward],
                size,
                size / traffic,
            )
            for (place, how, backward), size in self.bytes.most_common()
            if size > 0 and traffic
        )


def _kind(name: str, source: Tensor, kwargs: Mapping[str, Any], out: Tensor, place: Place) -> str:
    """Which copy; empty: none that counts."""
    if name == "clone":
        return "contiguous()" if kwargs.get("memory_format") not in (None, torch.preserve_format) else "clone()"
    if name == "index":
        return "advanced indexing"
    if name != "_to_copy":
        return ""
    if source.device != out.device:
        # From the host to the device is the way of every batch.
        return "" if source.device.type == "cpu" else f"{source.device} to {out.device}"
    if source.dtype == out.dtype:
        return "contiguous()" if source.stride() != out.stride() else "clone()"
    if _is_autocasts(place):
        return ""
    return f"{_short(source.dtype)} to {_short(out.dtype)}"


def _is_autocasts(place: Place) -> bool:
    """Inside autocast a cast is its own, unless the user's line itself asks for one. (Autocast is off for everything
    that a dispatch mode sees, so only its nesting is known.)"""
    inside = torch.autocast_increment_nesting() > 1
    torch.autocast_decrement_nesting()
    return bool(inside) and not (_is_direct() and _says(line_of(place), CASTS))


def _is_direct() -> bool:
    """Was the operation called by the user's own code, not inside a layer of a library?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _stands_between(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and is_users(frame.f_code.co_filename)


def _stands_between(file: str) -> bool:
    return file == UNSEEN or file.startswith(OURS) or os.path.basename(file) in MODE_FRAMES


def _says(line: str, methods: Sequence[str]) -> bool:
    return any(f".{method}(" in line for method in methods)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _described(place: Place, how: str) -> str:
    """With a remark, where the line does not say it: a library's function copies inside."""
    line, word = line_of(place), how.partition("(")[0]
    if how.startswith("reshape"):
        shown = any(each in line for each in RESHAPES)
    elif how in ("contiguous()", "clone()"):
        shown = word in line or "copy" in line
    elif how == "advanced indexing":
        shown = "[" in line
    else:
        shown = _says(line, CASTS)
    return how if shown else f"{how}, inside the call"
