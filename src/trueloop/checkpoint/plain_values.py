"""Tensors and plain values as bytes, between a confined process and the one that asked it to read a file.

A safetensors file: the bytes of each storage by its number, and under "tree" JSON. In it a list is a list; everything
else that is not a number, a text or null is an object with one key, which says what it is. Tensors that shared a
storage share one again. `decode` takes bytes from anybody: it builds nothing but these types, inside the storages.
"""

import base64
import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import safetensors.torch
import torch
from torch import Tensor, nn

__all__ = ["NotPlain", "decode", "encode"]

MOST_VALUES: Final = 4_000_000  # Values in one file: lists of lists of lists can be small on disk and endless here
DEEPEST: Final = 100
_SPREAD: Final = 8  # Times that tensors may be larger than what is stored of them: views, tied weights, expanded ones
_FREE: Final = 1 << 26  # Bytes that they may take in any case
_TREE: Final = "tree"
_DTYPES: Final = {
    str(each): each for each in vars(torch).values() if isinstance(each, torch.dtype) and "q" not in str(each)
}  # without the quantized ones


class NotPlain(ValueError):
    """The file holds, or the answer describes, something else. The text says what: "it holds a Socket"."""


def encode(value: Any, size: int = 0) -> bytes:
    """`size`: bytes of the file that it comes from. Raises NotPlain."""
    writing = _Encoder(size)
    tree = json.dumps(writing.node(value, 0)).encode()
    storages = {str(number): tensor for number, tensor in writing.storages.values()}
    return safetensors.torch.save({_TREE: torch.frombuffer(bytearray(tree), dtype=torch.uint8), **storages})


@final
class _Encoder:
    def __init__(self, size: int) -> None:
        self.storages: dict[tuple[int, int], tuple[int, Tensor]] = {}
        self._count, self._left = 0, _FREE + _SPREAD * size

    def node(self, value: Any, depth: int) -> Any:
        self._count += 1
        if self._count > MOST_VALUES or depth > DEEPEST:
            deep = f"values nested more than {DEEPEST} deep"
            raise NotPlain(f"it holds {deep if depth > DEEPEST else f'more than {MOST_VALUES:,} values'}")
        kind = type(value)
        self._left -= len(value) if kind in (str, bytes, bytearray) else 0
        if self._left < 0:  # one text, referred to again and again
            raise NotPlain("it holds texts that are far larger than the file")
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.node(each, depth + 1) for each in value]
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: [self.node(each, depth + 1) for each in value]}
        if kind in _MAPPINGS:
            pairs = [[self.node(key, depth + 1), self.node(each, depth + 1)] for key, each in value.items()]
            return {_MAPPINGS[kind]: pairs}
        if kind in (Tensor, nn.Parameter):
            return self._tensor(value, depth)
        return {_NAMES[kind]: _leaf(value)} if kind in _NAMES else _refuse(f"it holds a {kind.__name__}")

    def _tensor(self, value: Tensor, depth: int) -> dict[str, Any]:
        if value.layout == torch.sparse_coo:
            sparse = value.coalesce()
            parts = (sparse.indices(), sparse.values())
            return {"sparse": [*(self._tensor(part, depth) for part in parts), list(value.shape)]}
        if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
            _refuse(f"it holds a tensor that is {value.layout}, {value.dtype}, on {value.device}")
        data = value.detach().resolve_conj().resolve_neg()
        stored = data.untyped_storage()
        key = (stored.data_ptr(), stored.nbytes())
        if key not in self.storages:
            flat = torch.empty(0, dtype=torch.uint8).set_(stored)
            self.storages[key] = len(self.storages), flat
        about = [self.storages[key][0], str(data.dtype), data.storage_offset()]
        shape = [list(data.shape), list(data.stride()), value.requires_grad]
        return {"parameter" if isinstance(value, nn.Parameter) else "tensor": [*about, *shape]}


_SEQUENCES: Final[dict[type, str]] = {tuple: "tuple", set: "set", frozenset: "frozenset", torch.Size: "size"}
_MAPPINGS: Final[dict[type, str]] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_NAMES: Final[dict[type, str]] = {
    float: "float", complex: "complex", bytes: "bytes", bytearray: "bytearray", torch.dtype: "dtype",
    torch.device: "device",
}  # fmt: skip


def _refuse(what: str) -> Any:
    raise NotPlain(what)


def _leaf(value: Any) -> Any:
    if isinstance(value, complex):
        return [value.real.hex(), value.imag.hex()]
    return base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else str(value)


def decode(data: bytes) -> Any:
    """Raises NotPlain."""
    try:
        storages = safetensors.torch.load(data)
        tree = json.loads(storages.pop(_TREE).numpy().tobytes())
        return _Decoder(storages, len(data)).value(tree)
    except NotPlain:
        raise
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError,
            RuntimeError, OverflowError) as error:  # fmt: skip
        raise NotPlain(f"it was answered with something that is not an answer ({type(error).__name__})") from None


@final
class _Decoder:
    def __init__(self, storages: Mapping[str, Tensor], size: int) -> None:
        if any(each.dtype != torch.uint8 or each.dim() != 1 for each in storages.values()):
            raise NotPlain("it was answered with storages that are not bytes")
        self._storages, self._left = storages, _FREE + _SPREAD * size

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(each) for each in node]
        if not isinstance(node, dict):
            return node
        ((kind, inside),) = node.items()
        if kind in ("tensor", "parameter"):
            return self._tensor(kind, *inside)
        if kind == "sparse":
            indices, values, shape = inside
            parts = self.value(indices), self.value(values)
            return torch.sparse_coo_tensor(*parts, shape, check_invariants=True).coalesce()
        if kind in _SEQUENCES.values():
            return _BUILDERS[kind](self.value(each) for each in inside)
        if kind in _MAPPINGS.values():
            return _BUILDERS[kind]([(self.value(key), self.value(each)) for key, each in inside])
        return _BUILDERS[kind](inside)

    def _tensor(
        self, kind: str, number: int, name: str, offset: int, shape: list[int], stride: list[int], trained: bool
    ) -> Tensor:
        dtype, stored = _DTYPES[name], self._storages[str(number)].untyped_storage()
        if any(type(each) is not int or each < 0 for each in (offset, *shape, *stride)) or len(shape) != len(stride):
            raise NotPlain("it was answered with a tensor of no shape")
        last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if 0 not in shape and (last + 1) * dtype.itemsize > stored.nbytes():
            raise NotPlain("it holds a tensor that is larger than its data")
        self._left -= math.prod(shape) * dtype.itemsize
        if self._left < 0:
            raise NotPlain("it holds tensors that are far larger than its data")
        made = torch.empty(0, dtype=dtype).set_(stored, offset, shape, stride)
        if kind == "parameter":
            return nn.Parameter(made, requires_grad=bool(trained))
        return made.requires_grad_() if trained else made


_BUILDERS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: kind for kind, name in _SEQUENCES.items()},
    **{name: kind for kind, name in _MAPPINGS.items()},
    "counter": lambda pairs: Counter(dict(pairs)),
    "float": float,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "bytearray": lambda text: bytearray(base64.b64decode(text, validate=True)),
    "dtype": _DTYPES.__getitem__,
    "device": torch.device,
}
