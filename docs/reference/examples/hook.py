import torch
from torch import nn

from trueloop import Hook, Recipe, Splits, Tensors, train


class Count(Hook):
    rows = 0

    def logged(self, row):
        Count.rows += 1


x = torch.randn(64, 4)
recipe = Recipe(
    "counted",
    lambda: nn.Linear(4, 1),
    lambda request: Splits(Tensors(x, x.sum(1))),
    task="regression",
    epochs=2,
    batch=16,
    hooks=(Count(),),
    trackers=(),
)
train(recipe, hooks=())
assert Count.rows > 0
