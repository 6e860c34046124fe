"""The middle of a fused linear + cross entropy, in plain torch: scores in, losses out, and the scores overwritten with
their gradient.

The same contract as `softmax_gradient_triton`, on any device and in any floating point type. For each row of `scores`:

    a class number          loss = log-sum-exp - score of the class; gradient = softmax - 1 at the class
    `ignore`                loss = 0, gradient = 0, whatever the scores are
    any other number        loss and gradient are NaN: asking on a GPU would make the host wait, and a wrong number must
    not pass
"""

import math

import torch
from torch import Tensor

__all__ = ["softmax_gradient"]


def softmax_gradient(scores: Tensor, targets: Tensor, losses: Tensor, ignore: int, *, write: bool) -> None:
    """Fills `losses` [N], of float32 or float64; `write`: `scores` [N, V] become d(sum of losses) / d(scores)."""
    classes = scores.shape[1]
    counts = targets != ignore
    known = (targets >= 0) & (targets < classes)
    place = torch.where(known, targets, 0).unsqueeze(1)
    wide = scores.to(losses.dtype, copy=not write)  # the same memory, if it may be overwritten and is wide enough
    total = wide.logsumexp(1)
    loss = torch.where(known, total - wide.gather(1, place).squeeze(1), math.nan)
    losses.copy_(torch.where(counts, loss, 0.0))
    if not write:
        return
    gradient = wide.sub_(total.unsqueeze(1)).exp_()
    gradient.scatter_(1, place, gradient.gather(1, place) - 1)
    gradient.masked_fill_((counts & ~known).unsqueeze(1), math.nan)
    gradient.masked_fill_(~counts.unsqueeze(1), 0.0)
    if gradient.data_ptr() != scores.data_ptr():
        scores.copy_(gradient)
