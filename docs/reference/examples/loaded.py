import torch
from torch import nn

from trueloop import Loaded, Recipe, Splits, Tensors, load, train

x = torch.randn(64, 4)


def read(request):
    return Splits(Tensors(x[:48], x[:48].sum(1)), Tensors(x[48:], x[48:].sum(1)))


def net():
    return nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))


recipe = Recipe(name="mine", model=net, data=read, task="regression", epochs=3, batch=16, lr=0.01, trackers=())
train(recipe, hooks=())
loaded: Loaded = load("mine", recipe=recipe, checkpoint="last")
assert not loaded.model.training
assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
