"""One tensor of a file, to the last byte: shape, stride, offset, whose memory it lies in, and how its numbers lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trueloop.inspection.files import Opened, open_file
from trueloop.inspection.numbers import dtype_of, histogram, same_storage, statistics_of
from trueloop.results.document import Column, Document, Facts, Part, Table

__all__ = ["inspect_tensor", "split_key"]


def split_key(word: str) -> tuple[Path, str | None]:
    """FILE or FILE:KEY. A file whose name has a colon is meant if it is there."""
    file, colon, key = word.rpartition(":")
    if not colon or Path(word).exists() or "/" in key:
        return Path(word), None
    return Path(file), key


def inspect_tensor(word: str) -> Document:
    """Raises BadCheckpoint."""
    path, key = split_key(word)
    opened = open_file(path)
    name, tensor = opened.named(key)
    parts: list[Part] = [Facts("", _layout(tensor)), _sharing(opened, name), Facts("Values", _values(tensor))]
    bars = histogram(tensor, "How they lie")
    shown = tuple(part for part in (*parts, *([bars] if bars else [])) if not isinstance(part, Table) or part.rows)
    return Document(f"{name} in {opened.path}", shown, tuple(_remarks(opened, tensor)))


def _layout(tensor: Tensor) -> dict[str, Any]:
    told: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": dtype_of(tensor), "numbers": tensor.numel()}
    if tensor.layout != torch.strided:
        return {**told, "layout": str(tensor.layout).removeprefix("torch.")}
    storage = tensor.untyped_storage().nbytes()
    told |= {
        "stride": f"{tuple(tensor.stride())} numbers",
        "storage offset": f"{tensor.storage_offset():,} numbers",
        "contiguous": _contiguous(tensor),
        "bytes": f"{tensor.numel() * tensor.element_size():,}",
        "storage": f"{storage:,} bytes",
        "view or copy": _view(tensor, storage),
    }
    return told


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
        return "a view: expanded, the same memory is read again along a dimension of stride 0"
    if own < storage:
        return f"a view: {own:,} of the {storage:,} bytes of its storage, from byte {tensor.storage_offset() * tensor.element_size():,} on"
    return "owns its storage whole" if tensor.is_contiguous() else "covers its storage whole, in another order"


def _sharing(opened: Opened, name: str) -> Table:
    """The other tensors of the file in the same memory, and whether they touch."""
    mine = opened.tensors[name]
    rows = []
    for other in same_storage(dict(opened.tensors))[name]:
        theirs = opened.tensors[other]
        rows.append(
            (other, tuple(theirs.shape), tuple(theirs.stride()), theirs.storage_offset(), _overlap(mine, theirs))
        )
    columns = (
        Column("name", "name"),
        Column("shape", "shape"),
        Column("stride"),
        Column("offset", "count"),
        Column("meets it"),
    )
    return Table("In the same storage", columns, tuple(rows))


def _overlap(one: Tensor, other: Tensor) -> str:
    if (one.storage_offset(), one.shape, one.stride()) == (other.storage_offset(), other.shape, other.stride()):
        return "the very same numbers: tied"
    (low, high), (from_, to) = _span(one), _span(other)
    return "the spans overlap" if low < to and from_ < high else "another part"


def _span(tensor: Tensor) -> tuple[int, int]:
    """The bytes from its first number to its last."""
    last = (
        sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        if tensor.numel()
        else 0
    )
    start = int(tensor.storage_offset()) * tensor.element_size()
    return start, start + int(last) * tensor.element_size()


def _values(tensor: Tensor) -> dict[str, Any]:
    return dict(statistics_of(tensor))


def _remarks(opened: Opened, tensor: Tensor) -> list[str]:
    notes = []
    if opened.format == "safetensors":
        notes.append("safetensors keep no views: what was a view or tied when it was saved is a copy here.")
    if (
        tensor.layout == torch.strided
        and tensor.numel() * tensor.element_size() * 2 < tensor.untyped_storage().nbytes()
    ):
        notes.append("The file carries the whole storage of this view: save tensor.clone() to keep only what is meant.")
    return notes
