"""One tensor of a file: shape, stride, offset, shared storage, and the distribution of its values."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trueloop.inspection.files import Opened, open_file
from trueloop.inspection.numbers import dtype_of, histogram, same_storage, statistics_of
from trueloop.results.document import Column, Document, Facts, Part, Table

__all__ = ["inspect_tensor", "split_key"]


def split_key(word: str) -> tuple[Path, str | None]:
    """FILE or FILE:KEY. An existing file whose name has a colon is a FILE."""
    file, colon, key = word.rpartition(":")
    if not colon or Path(word).exists() or "/" in key:
        return Path(word), None
    return Path(file), key


def inspect_tensor(word: str) -> Document:
    """Raises BadCheckpoint."""
    path, key = split_key(word)
    opened = open_file(path)
    name, tensor = opened.named(key)
    parts: list[Part] = [Facts("", _layout(tensor)), _sharing(opened, name), Facts("Values", statistics_of(tensor))]
    bars = histogram(tensor, "Distribution")
    shown = tuple(part for part in (*parts, *([bars] if bars else [])) if not isinstance(part, Table) or part.rows)
    return Document(f"{name} in {opened.path}", shown, tuple(_remarks(opened, tensor)))


def _layout(tensor: Tensor) -> dict[str, Any]:
    layout: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": dtype_of(tensor), "elements": tensor.numel()}
    if tensor.layout != torch.strided:
        return {**layout, "layout": str(tensor.layout).removeprefix("torch.")}
    storage = tensor.untyped_storage().nbytes()
    layout |= {
        "stride": f"{tuple(tensor.stride())} elements",
        "storage offset": f"{tensor.storage_offset():,} elements",
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
