import torch
from torch import nn

from trueloop import Recipe, Splits, Stream, train


class Noise(Stream):
    def next(self, loop):
        x = torch.randn(16, 4)
        return x, x.sum(1)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def net():
    return nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))


recipe = Recipe("stream", net, lambda request: Splits(Noise()), task="regression", steps=5, batch=16, trackers=())
assert train(recipe, hooks=()).ending.step == 5
