"""Rows of tensors by their content: digests of whole rows, and of stretches of numbers inside them."""

from typing import Final

import torch
from torch import Tensor

__all__ = ["STRETCH", "digests", "stretches"]

STRETCH: Final = 4  # numbers in a row
_ODD: Final = 0x9E3779B97F4A7C15 - 2**64


def digests(rows: Tensor) -> list[int]:
    """One number per row: equal for rows with equal bits, whatever the batch. Integer arithmetic, so it is exact."""
    found: list[int] = _mixed(rows).tolist()
    return found


def _mixed(rows: Tensor) -> Tensor:
    flat = rows.detach().reshape(rows.shape[0], -1)
    # + 0.0: the two zeros are equal
    bits = (flat.float() + 0.0).contiguous().view(torch.int32) if flat.dtype.is_floating_point else flat
    bits = bits.long()
    places = torch.arange(1, flat.shape[1] + 1, device=flat.device)
    mixed = (bits + 1) * ((places * _ODD) ^ (places << 17))
    mixed = mixed ^ (mixed >> 29)
    return (mixed * _ODD).sum(1)


def stretches(rows: Tensor) -> tuple[list[list[int]], Tensor]:
    """For each row of [rows, time] or [rows, time, features]: digests of every four numbers in a row of the first
    feature (0: fewer than three are different), and the last four numbers. Empty lists for short rows."""
    series = rows.detach() if rows.ndim == 2 else rows.detach()[:, :, 0]
    if series.shape[1] < 2 * STRETCH:
        return [], series[:0]
    pieces = series.unfold(1, STRETCH, 1)
    ordered = pieces.sort(2).values
    varied = ((ordered[:, :, 1:] != ordered[:, :, :-1]).sum(2) >= 2) & pieces.isfinite().all(2)
    found = _mixed(pieces.reshape(-1, STRETCH)).reshape(pieces.shape[:2])
    listed: list[list[int]] = (found * varied).tolist()
    return listed, series[:, -STRETCH:]
