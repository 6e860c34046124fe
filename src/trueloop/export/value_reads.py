"""A trace follows one call. Where Python reads a value that depends on the inputs, it keeps that value for all others:
`if x.sum() > 0` becomes one of its two branches. This mode refuses the first such read, at its line.

Values of shapes, weights and constants may be read: shapes are verified with several batch sizes and lengths, and the
others do not change.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, final

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
}
"""Functions of torch that give Python a value -> how they are written."""
_SHAPES: Final = frozenset(("size", "__len__", "numel", "nelement", "dim", "stride"))
"""Under a trace these return tensors, too."""


class ValueRead(RuntimeError):
    """Raised at the line that reads."""


@final
class RefuseValueReads(TorchFunctionMode):
    """Everything computed from the inputs is followed by its memory, so that views and in-place writes count."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.memory: set[int] = set()
        self.kept: list[Tensor] = []  # Freed memory would be reused for something else
        self._follow(inputs)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        depends = any(map(self._depends, tensors_in([*args, *kwargs.values()])))
        if depends and name in _READS:
            raise ValueRead(f"data-dependent: {_READS[name]} reads a value that the inputs decide")
        result = function(*args, **kwargs)
        if depends and name not in _SHAPES and not isinstance(result, Size):
            written = args[:1] if name in ("__setitem__", "copy_") else ()
            self._follow(tensors_in([result, *written]))
        return result

    def _follow(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if place := storage_address(tensor):
                self.memory.add(place)
                self.kept.append(tensor)

    def _depends(self, tensor: Tensor) -> bool:
        return storage_address(tensor) in self.memory
