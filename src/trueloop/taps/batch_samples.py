"""The samples of a batch: which dimension is the batch, a digest of each sample, and whether they form a series.

A digest reads at most `WORDS` words of a sample, evenly spread. The same sample has the same digest in every batch and
loader, even if another batch pads it with more zeros. No random number of the run is drawn.
"""

from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.taps.calls import tensors_in

__all__ = ["are_windows", "digests", "integers", "likeness", "rows_of"]

WORDS: Final = 512  # Words read of a sample: every second of a small image, every 300th of a large one
WORK: Final = 1 << 18  # Words read of a batch: a fraction of a millisecond
PARTS: Final = 8  # Tensors read of a batch
COMPARED: Final = 64  # Samples, and values of each, that are compared
LABELS: Final = 1 << 14  # Labels read of a batch
SEED: Final = 20  # Seed of the multipliers' own generator; any will do
_ODD: Final = -7046029254386353131  # The golden ratio in 64 bits, odd: the digest depends on the order of the tensors
_BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32}
"""Words are half as wide as their sum, so that no bit is lost."""


def rows_of(batch: Any, *, stacked: bool) -> list[Tensor]:
    """The tensors of a batch whose first dimension is the batch; empty if that is not certain."""
    dense = [t for t in tensors_in(batch, limit=PARTS) if t.dim() and t.layout is torch.strided]
    found = [t for t in dense if not t.is_meta and not t.is_quantized]
    size = found[0].shape[0] if found else 0
    rows = [tensor for tensor in found if tensor.shape[0] == size][:PARTS]
    return rows if size and (stacked or len(rows) > 1) else []


def digests(rows: list[Tensor]) -> tuple[int, ...]:
    """A digest for each sample; in a large batch for some of them, evenly spread."""
    wide = sum(min(WORDS, tensor[0].numel()) for tensor in rows)
    every = -(-rows[0].shape[0] // max(64, WORK // max(1, wide)))
    total = torch.zeros(-(-rows[0].shape[0] // every), dtype=torch.int64, device="cpu")
    for tensor in rows:
        words = _words(tensor[::every])
        total = total * _ODD + words.to("cpu", torch.int64) @ _multipliers()[: words.shape[1]]
    return tuple(total.tolist())


def _words(rows: Tensor) -> Tensor:
    """The bits of each sample as integers, at most `WORDS` of them."""
    plain = torch.view_as_real(rows.resolve_conj()) if rows.is_complex() else rows.detach()
    flat = plain.reshape(plain.shape[0], -1)
    step = -(-flat.shape[1] // WORDS) if flat.shape[1] else 1
    return flat[:, ::step].contiguous().view(_BITS[flat.element_size()])[:, :WORDS]


@cache
def _multipliers() -> Tensor:
    own = torch.Generator("cpu").manual_seed(SEED)
    return torch.randint(-(2**62), 2**62, (WORDS,), dtype=torch.int64, device="cpu", generator=own) * 2 + 1


def integers(tensor: Tensor) -> tuple[int, ...] | None:
    """One integer for each sample, like class labels; None for anything else."""
    if tensor.numel() != tensor.shape[0] or tensor.is_complex() or tensor.numel() > LABELS:
        return None
    values = tensor.detach().reshape(-1).tolist()
    return tuple(int(value) for value in values) if all(value == value // 1 for value in values) else None


def likeness(tensor: Tensor) -> float:
    """The distance to the next sample relative to any other one: about 1 for a random order, less for a series."""
    size = min(tensor.shape[0], COMPARED)
    if size < 2 or tensor.is_complex() or not tensor[0].numel():
        return 1.0
    flat = tensor.detach()[:size].reshape(size, -1)[:, :: -(-tensor[0].numel() // COMPARED)].to("cpu", torch.float32)
    ids = tensor.dim() > 1 and not tensor.is_floating_point()  # equal or not is all that can be asked of them
    apart = torch.cdist(flat, flat, p=0.0 if ids else 1.0)
    far = float(apart.sum()) / (size * (size - 1))
    return float(apart.diagonal(1).mean()) / far if 0 < far < torch.inf else 1.0


def are_windows(rows: list[Tensor]) -> bool:
    """Is each sample the previous one shifted by a few positions, or one tensor another shifted by one?"""
    lead = rows[0]
    if lead.dim() < 2 or lead.shape[0] < 2 or lead.shape[1] < 3:
        return False
    for other in rows[1:]:
        if other.shape == lead.shape and other.dtype == lead.dtype and torch.equal(other[:, :-1], lead[:, 1:]):
            return True
    if torch.equal(lead[0], lead[0][:1].expand_as(lead[0])):
        return False  # windows over a constant are all equal
    later, shifts = lead[1:5], range(1, min(8, lead.shape[1] - 1) + 1)
    return any(torch.equal(later[:, :-shift], lead[:4, shift:][: later.shape[0]]) for shift in shifts)
