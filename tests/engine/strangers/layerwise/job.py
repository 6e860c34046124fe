import torch
from torch import nn

NO_DECAY = ("bias", "norm", "position")


def splits():
    tokens = torch.randint(0, 8, (300, 6), generator=torch.Generator().manual_seed(0))
    labels = (tokens[:, 0] > tokens[:, 5]).long()
    return (tokens[:240], labels[:240]), (tokens[240:], labels[240:])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.inner = nn.LayerNorm(16), nn.Linear(6, 6), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.inner(self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2)).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(8, 16), nn.Parameter(0.1 * torch.randn(6, 16))
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(3)), nn.Linear(16, 2)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def depth(name):
    """0 for the head, 1 to 3 for the blocks from the last on, 4 for the embeddings."""
    return 0 if name.startswith("head") else 3 - int(name.split(".")[1]) if name.startswith("blocks") else 4


def decays(name):
    return not any(part in name for part in NO_DECAY)
