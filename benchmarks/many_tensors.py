"""A model of 2,000 small tensors: does `tune` keep the optimizer kernel that updates them all in one launch?

trueloop tune benchmarks/many_tensors.py --minutes 2 --set program=eager --set compile=off --set precision=fp32

An additive model: each of 1,000 columns has a table of its own with an output and a confidence per bin. All are looked
up at once, so the step has few other launches. Without `--set program=eager`, CUDA graphs hide launches of any kernel.
"""

import torch
from torch import Tensor, nn

from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest, Recipe

COLUMNS, BINS, SAMPLES = 1000, 64, 4096


class Additive(nn.Module):
    """Columns that are already cut into bins."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs = nn.ParameterList(0.01 * torch.randn(BINS) for _ in range(COLUMNS))
        self.weights = nn.ParameterList(torch.zeros(BINS) for _ in range(COLUMNS))
        self.register_buffer("begins", BINS * torch.arange(COLUMNS), persistent=False)

    def forward(self, bins: Tensor) -> Tensor:
        place = bins + self.begins  # type: ignore[operator]
        outputs, weights = torch.cat(list(self.outputs))[place], torch.cat(list(self.weights))[place]
        return (outputs * weights.sigmoid()).sum(1)


def read(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(request.seed)
    bins = torch.randint(0, BINS, (SAMPLES, COLUMNS), generator=draws)
    targets = (bins[:, :20].float() / BINS - 0.5).sum(1)
    return Splits(Tensors(bins[512:], targets[512:]), Tensors(bins[:512], targets[:512]))


def recipe() -> Recipe:
    return Recipe(
        name="many-tensors",
        model=Additive,
        data=read,
        task="regression",
        lr=1e-3,
        epochs=3,
        batch=64,
        weight_decay=0.01,
    )
