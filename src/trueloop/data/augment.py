"""Random image augmentation on the device, drawing only from the given generator."""

import torch
from torch import Tensor

__all__ = ["mirrored", "shifted"]


def mirrored(images: Tensor, draws: torch.Generator) -> Tensor:
    """Each image [N, C, H, W] flipped horizontally with probability 1/2."""
    coins = torch.rand(len(images), 1, 1, 1, generator=draws, device=images.device) < 0.5
    return torch.where(coins, images.flip(-1), images)


def shifted(images: Tensor, draws: torch.Generator, by: int) -> Tensor:
    """Each image [N, C, H, W] shifted by up to `by` pixels in both directions; the edge is repeated."""
    count, _, height, width = images.shape
    moves = torch.randint(-by, by + 1, (2, count, 1), generator=draws, device=images.device)
    rows = (torch.arange(height, device=images.device) + moves[0]).clamp_(0, height - 1)
    columns = (torch.arange(width, device=images.device) + moves[1]).clamp_(0, width - 1)
    which = torch.arange(count, device=images.device)[:, None, None]
    return images.movedim(1, -1)[which, rows[:, :, None], columns[:, None, :]].movedim(-1, 1).contiguous()
