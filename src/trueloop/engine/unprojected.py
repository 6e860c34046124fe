"""An answer that is not multiplied out: what a model would give to its last layer, and the weight of that layer.

    return Unprojected(self.norm(stream), self.scores.weight)          # instead of self.scores(self.norm(stream))

Tasks `language` and `multiclass` take it in place of scores. Their loss is then computed by
`kernels/linear_cross_entropy`, which never holds all scores at once: for a vocabulary of 50,000 they, and their
gradient, are the largest things of a step. The last layer must have no bias.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.kernels.linear_cross_entropy import chunk_rows, linear_cross_entropy

__all__ = ["Unprojected", "shape_only"]


class Unprojected(NamedTuple):
    """Stands for the scores [..., V] = hidden [..., D] @ weight [V, D].T"""

    hidden: Tensor
    weight: Tensor

    @property
    def shape(self) -> torch.Size:
        """Of the scores."""
        return torch.Size((*self.hidden.shape[:-1], len(self.weight)))

    def scores(self) -> Tensor:
        """All of them, in memory; differentiable."""
        same = self.weight.dtype == self.hidden.dtype or torch.is_autocast_enabled(self.hidden.device.type)
        return F.linear(self.hidden, self.weight if same else self.weight.to(self.hidden.dtype))

    def flatten(self, first: int, last: int) -> Unprojected:
        """As it would be of the scores; the last dimension cannot be part of it."""
        return Unprojected(self.hidden.flatten(first, last), self.weight)

    def loss_sum(self, targets: Tensor, ignore: int) -> Tensor:
        """Of [N, D] and [N]: cross entropy, added up over the targets that are not `ignore`."""
        return linear_cross_entropy(self.hidden, self.weight, targets, ignore)

    def hits(self, targets: Tensor) -> Tensor:
        """Of [N, D] and [N]: where is the highest score that of the target? The scores of some rows at a time."""
        rows = chunk_rows(len(targets), len(self.weight), self.hidden.dtype, self.hidden.device)
        parts = zip(torch.split(self.hidden, rows), torch.split(targets, rows), strict=True)
        return torch.cat([Unprojected(hidden, self.weight).scores().argmax(1) == wanted for hidden, wanted in parts])


def shape_only(output: object) -> object:
    """Of an `Unprojected`, a tensor of its scores' shape without memory, for checks of shapes. Others as they are."""
    return output.hidden.new_zeros(()).expand(output.shape) if isinstance(output, Unprojected) else output
