"""A trace follows one call. Where Python reads a value that depends on the inputs, it keeps that value for all others:
`if x.sum() > 0` becomes one of its two branches. This mode refuses the first such read, at its line.

Values of shapes, weights and constants may be read: shapes are verified with several batch sizes and lengths, and the
others do not change. The shape of a selection (`x[x > 0]`, `x.nonzero()`) is a value of the inputs, too.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, final

import torch
from torch import Size, Tensor
from torch.overrides import TorchFunctionMode

from trueloop.data.source import tensors_in
from trueloop.measure.tensors import storage_address

__all__ = ["RefuseValueReads", "ValueRead"]

_READS: Final = {
    **dict.fromkeys(("__bool__", "is_nonzero"), "`if`, `while`, `and`, `or`, `not` or `assert`"),
    **{name: f"`{name}()`" for name in ("item", "tolist", "numpy", "equal", "allclose")},
    **{f"__{name}__": f"`{name}()`" for name in ("int", "float", "complex")},
    "__index__": "an index",
    "__array__": "numpy",
    "__contains__": "`in`",
    "__dlpack__": "`from_dlpack`",
    **{name: f"`{name}()`" for name in ("untyped_storage", "storage")},
}
"""Functions of torch that give Python a value -> how they are written."""
_SHAPES: Final = frozenset(("size", "__len__", "numel", "nelement", "dim", "stride", "ndimension"))
"""Under a trace these return tensors, too."""
_SELECTIONS: Final = frozenset(
    ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave", "nms")
)
"""How many elements they return is decided by the values that they are given."""
_SIZED: Final = frozenset(
    (
        *("arange", "zeros", "ones", "full", "empty", "rand", "randn", "narrow", "expand", "view", "reshape", "repeat"),
        *("new_zeros", "new_ones", "new_full", "new_empty", "tile"),
    )
)
"""They may be given a size that was computed."""
_KEEP_SHAPE: Final = ("index_", "scatter", "masked_", "put", "copy_", "__setitem__")
"""Beginnings of names: the result has the shape of the first argument, however many elements are written into it."""
_PARTED: Final = frozenset(("unbind", "split"))


class ValueRead(RuntimeError):
    """Raised at the line that reads."""


@final
class RefuseValueReads(TorchFunctionMode):
    """Everything computed from the inputs is followed by its memory, so that views and in-place writes count."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.memory: set[int] = set()
        self.counted: set[int] = set()  # Identities of tensors whose shape the inputs decide
        self.kept: list[Tensor] = []  # Freed memory would be reused for something else
        self._follow(inputs)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, given = getattr(function, "__name__", ""), list(tensors_in([*args, *kwargs.values()]))
        depends = any(map(self._depends, given))
        if depends and name in _READS:
            raise ValueRead(f"data-dependent: {_READS[name]} reads a value that the inputs decide")
        counts = bool(given) and id(given[0]) in self.counted
        if counts and (name == "__len__" or (name in _PARTED and _along_first(name, args, kwargs))):
            how = "`len()`" if name == "__len__" else "a loop or `unbind`"
            raise ValueRead(f"data-dependent: {how} reads how many elements the inputs select")
        result = function(*args, **kwargs)
        if name in _SHAPES or isinstance(result, Size):
            if counts:
                self._follow(tensors_in([*result] if isinstance(result, Size) else result))
            return result
        if depends:
            written = args[:1] if name in ("__setitem__", "copy_") else ()
            self._follow(tensors_in([result, *written]))
        if self._selects(name, args, given) or self._carries(name, given):
            self._count(tensors_in(result))
        return result

    def _selects(self, name: str, args: Sequence[Any], given: Sequence[Tensor]) -> bool:
        """Do values of the inputs decide the shape of what this function returns?"""
        if name == "__getitem__":
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            ends = [end for part in index if isinstance(part, slice) for end in (part.start, part.stop)]
            masks = [part for part in index if isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8)]
            return any(isinstance(each, Tensor) and self._depends(each) for each in (*masks, *ends))
        if name == "where":
            return len(args) == 1 and any(map(self._depends, given))
        if name == "repeat_interleave":
            return any(map(self._depends, given[1:]))
        if name in _SIZED:
            return any(self._depends(each) and not each.dim() and not each.is_floating_point() for each in given)
        return name in _SELECTIONS and any(map(self._depends, given))

    def _carries(self, name: str, given: Sequence[Tensor]) -> bool:
        """Is it given a tensor whose shape the inputs decide, and returns one?"""
        if name in _READS or not given:
            return False
        return any(id(each) in self.counted for each in (given[:1] if name.startswith(_KEEP_SHAPE) else given))

    def _count(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if tensor.dim():
                self.counted.add(id(tensor))
                self.kept.append(tensor)

    def _follow(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if place := storage_address(tensor):
                self.memory.add(place)
                self.kept.append(tensor)

    def _depends(self, tensor: Tensor) -> bool:
        return storage_address(tensor) in self.memory


def _along_first(name: str, args: Sequence[Any], kwargs: Any) -> bool:
    at = 1 if name == "unbind" else 2
    return bool((args[at] if len(args) > at else kwargs.get("dim", 0)) == 0)
