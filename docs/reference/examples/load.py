import torch
from torch import nn

from trueloop import Recipe, Splits, Tensors, load, train

x = torch.randn(64, 4)


def read(request):
    return Splits(Tensors(x[:48], x[:48].sum(1)), Tensors(x[48:], x[48:].sum(1)))


def net():
    return nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))


recipe = Recipe(name="mine", model=net, data=read, task="regression", epochs=3, batch=16, lr=0.01, trackers=())
train(recipe, hooks=())
loaded = load("runs/mine", recipe=recipe)  # a recipe file or a bundled recipe is found by itself
assert loaded.predict(x[:2]).shape == (2,)
