import torch
from torch import nn

BATCH, LENGTH = 8, 20
train = torch.randint(0, 7, (1608,), generator=torch.Generator().manual_seed(1)).cumsum(0) % 11 % 7
valid = torch.randint(0, 7, (404,), generator=torch.Generator().manual_seed(2)).cumsum(0) % 11 % 7


def cut(tokens, batch=BATCH, length=LENGTH):
    """(inputs, targets) of [batch, length]; row n continues row n of the one before."""
    tracks = tokens.view(batch, -1)
    inputs, targets = tracks[:, :-1], tracks[:, 1:]
    return list(zip(inputs.split(length, 1), targets.split(length, 1)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.score = nn.Embedding(7, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 7)

    def forward(self, tokens, state=None):
        output, state = self.inner(self.embed(tokens), state)
        return self.score(output), state
