"""The storage of a tensor, drawn as boxes: flat index above, value inside, element of the tensor below."""

from typing import Any, Final

import torch
from torch import Tensor

__all__ = ["draw_storage", "flat_index"]

CELLS: Final = 32  # drawn at most
WIDTH: Final = 76  # columns of a line of boxes: a terminal of 80 does not wrap it
LARGEST: Final = 1_000_000  # elements of a tensor that is drawn


def flat_index(tensor: Tensor) -> str:
    """How an element is found, with the last one as an example."""
    if not tensor.numel():
        return "no elements"
    names = [f"i{number}" for number in range(tensor.dim())]
    pairs = zip(names, tensor.stride(), strict=True)
    formula = " + ".join([str(tensor.storage_offset()), *(f"{name}*{stride}" for name, stride in pairs)])
    if not names:
        return formula
    last = [size - 1 for size in tensor.shape]
    at = tensor.storage_offset() + sum(i * s for i, s in zip(last, tensor.stride(), strict=True))
    return f"[{', '.join(names)}] is at {formula}; the last element {last} is at {at:,}"


def draw_storage(tensor: Tensor) -> str:
    """Empty: it cannot be drawn (sparse, meta, quantized, very large)."""
    plain = tensor.layout == torch.strided and not tensor.is_quantized and tensor.device.type != "meta"
    if not plain or not 0 < tensor.numel() <= LARGEST:
        return ""
    total = tensor.untyped_storage().nbytes() // tensor.element_size()
    offset = int(tensor.storage_offset())
    start = offset if offset >= CELLS else 0
    end = min(total, start + CELLS)
    values = tensor.detach().as_strided((end - start,), (1,), start).resolve_conj().resolve_neg().cpu().tolist()
    boxes = list(zip(map(str, range(start, end)), map(_value, values), _elements(tensor, start, end), strict=True))
    width = max(len(text) for box in boxes for text in box) + 2
    per_line = max(1, (WIDTH - 12) // (width + 1))
    lines = [_line(boxes[first : first + per_line], width) for first in range(0, len(boxes), per_line)]
    rest = total - (end - start)
    more = [f"{rest:,} of {total:,} elements of the storage are not drawn."] if rest else []
    return "\n".join([*lines, *more])


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, complex)) else str(value)


def _elements(tensor: Tensor, start: int, end: int) -> list[str]:
    """For each cell the element that lies there: '1,0'; '-': none; '0,0 +2': three of them."""
    flat = torch.full(tuple(tensor.shape), int(tensor.storage_offset()))
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        flat += (torch.arange(size) * stride).view([-1 if each == dim else 1 for each in range(tensor.dim())])
    cells: list[list[str]] = [[] for _ in range(start, end)]
    inside = (flat >= start) & (flat < end)
    for index, at in zip(inside.nonzero().tolist(), flat[inside].tolist(), strict=True):
        cells[at - start].append(",".join(map(str, index)) or "()")
    return [f"{names[0]} +{len(names) - 1}" if len(names) > 1 else names[0] if names else "-" for names in cells]


def _line(boxes: list[tuple[str, str, str]], width: int) -> str:
    def edge(left: str, middle: str, right: str) -> str:
        return " " * 12 + left + middle.join("─" * width for _ in boxes) + right

    def row(label: str, number: int, wall: str) -> str:
        return f"{label:12}{wall}" + wall.join(box[number].center(width) for box in boxes) + wall

    rows = (row("flat index", 0, " "), edge("┌", "┬", "┐"), row("value", 1, "│"), edge("└", "┴", "┘"))
    return "\n".join(line.rstrip() for line in (*rows, row("element", 2, " ")))
