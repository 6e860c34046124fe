"""One tensor of a file, or of an expression: shape, stride, offset, storage, distribution of its values."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trueloop.inspection.expression import Step, is_expression, tensor_steps
from trueloop.inspection.files import Opened, open_file
from trueloop.inspection.numbers import dtype_of, histogram, same_storage, statistics_of
from trueloop.inspection.storage_boxes import draw_storage, flat_index
from trueloop.results.document import Code, Column, Document, Facts, Part, Table
from trueloop.torch_private.tensors import view_base

__all__ = ["inspect_tensor", "split_key"]


def split_key(word: str) -> tuple[Path, str | None]:
    """FILE or FILE:KEY. An existing file whose name has a colon is a FILE."""
    file, colon, key = word.rpartition(":")
    if not colon or Path(word).exists() or "/" in key:
        return Path(word), None
    return Path(file), key


def inspect_tensor(word: str) -> Document:
    """A file, FILE:KEY, or an expression. Raises BadCheckpoint, Misuse."""
    if is_expression(word):
        return _inspect_expression(word)
    path, key = split_key(word)
    opened = open_file(path)
    name, tensor = opened.named(key)
    sharing = _sharing(opened, name)
    parts = (Facts("", _layout(tensor)), *_drawing(tensor), *([sharing] if sharing.rows else []), *_values(tensor))
    return Document(f"{name} in {opened.path}", parts, tuple(_remarks(opened, tensor)))


def _inspect_expression(word: str) -> Document:
    steps = tensor_steps(word)
    tensor = steps[-1].tensor
    layout = _layout(tensor) | {"device": str(tensor.device), "view of": _base(tensor)}
    return Document(word, (Facts("", layout), _history(steps), *_drawing(tensor), *_values(tensor)))


def _history(steps: list[Step]) -> Table:
    rows = []
    for step in steps:
        strided = step.tensor.layout == torch.strided
        place = (tuple(step.tensor.stride()), step.tensor.storage_offset()) if strided else (None, None)
        rows.append((step.text, tuple(step.tensor.shape), *place, step.what))
    columns = (Column("step"), Column("shape", "shape"), Column("stride"), Column("offset", "count"))
    return Table("Step by step", (*columns, Column("view or copy")), tuple(rows))


def _base(tensor: Tensor) -> str:
    base = view_base(tensor)
    if base is None:
        return "nothing: it is not a view"
    return f"a tensor of shape {tuple(base.shape)}, stride {tuple(base.stride())}"


def _drawing(tensor: Tensor) -> list[Part]:
    boxes = draw_storage(tensor)
    return [Code(boxes, title="Storage")] if boxes else []


def _values(tensor: Tensor) -> list[Part]:
    if tensor.device.type == "meta":
        return []
    bars = histogram(tensor, "Distribution")
    return [Facts("Values", statistics_of(tensor)), *([bars] if bars else [])]


def _layout(tensor: Tensor) -> dict[str, Any]:
    layout: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": dtype_of(tensor), "elements": tensor.numel()}
    if tensor.layout != torch.strided:
        return {**layout, "layout": str(tensor.layout).removeprefix("torch.")}
    storage = tensor.untyped_storage().nbytes()
    layout |= {
        "stride": f"{tuple(tensor.stride())} elements",
        "storage offset": f"{tensor.storage_offset():,} elements",
        "flat index": flat_index(tensor),
        "contiguous": _contiguous(tensor),
        "bytes": f"{tensor.numel() * tensor.element_size():,}",
        "storage": f"{storage:,} bytes",
        "view or copy": _view(tensor, storage),
    }
    return layout


def _contiguous(tensor: Tensor) -> str:
    if tensor.is_contiguous():
        return "yes"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "no, but channels_last"
    if tensor.dim() == 2 and tensor.t().is_contiguous():
        return "no: transposed"
    return "no"


def _view(tensor: Tensor, storage: int) -> str:
    own = tensor.numel() * tensor.element_size()
    if 0 in tensor.stride() and tensor.numel() > 1:
        return "a view: expanded, with stride 0 along a dimension"
    if own < storage:
        start = tensor.storage_offset() * tensor.element_size()
        return f"a view: {own:,} of the {storage:,} bytes of its storage, from byte {start:,} on"
    return (
        "owns its complete storage" if tensor.is_contiguous() else "covers its complete storage, in a different order"
    )


def _sharing(opened: Opened, name: str) -> Table:
    """The other tensors of the file in the same memory, and whether they overlap."""
    mine = opened.tensors[name]
    rows = []
    for other in same_storage(dict(opened.tensors))[name]:
        theirs = opened.tensors[other]
        about = (tuple(theirs.shape), tuple(theirs.stride()), theirs.storage_offset())
        rows.append((other, *about, _overlap(mine, theirs)))
    columns = (Column("name", "name"), Column("shape", "shape"), Column("stride"), Column("offset", "count"))
    return Table("In the same storage", (*columns, Column("overlap")), tuple(rows))


def _overlap(one: Tensor, other: Tensor) -> str:
    if (one.storage_offset(), one.shape, one.stride()) == (other.storage_offset(), other.shape, other.stride()):
        return "the same elements: tied"
    (low, high), (from_, to) = _span(one), _span(other)
    return "the spans overlap" if low < to and from_ < high else "a different part"


def _span(tensor: Tensor) -> tuple[int, int]:
    """The bytes from its first element to its last."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs) + 1 if tensor.numel() else 0
    start = int(tensor.storage_offset()) * tensor.element_size()
    return start, start + int(last) * tensor.element_size()


def _remarks(opened: Opened, tensor: Tensor) -> list[str]:
    notes = []
    if opened.format == "safetensors":
        notes.append("safetensors stores no views: a view or tied tensor is saved as a copy.")
    own = tensor.numel() * tensor.element_size()
    if tensor.layout == torch.strided and own * 2 < tensor.untyped_storage().nbytes():
        notes.append("The file holds the complete storage of this view: save `tensor.clone()` to save only the view.")
    return notes
