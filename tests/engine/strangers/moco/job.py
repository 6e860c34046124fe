import torch
from torch import nn
from torch.nn import functional as F

draws = torch.Generator().manual_seed(0)
inputs = torch.randn(400, 16, generator=draws)
QUEUE, HEAT, MOMENTUM = 64, 0.2, 0.9


def encoder():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))


def first_queue():
    return F.normalize(torch.randn(QUEUE, 8, generator=torch.Generator().manual_seed(7)), dim=1)


def views(x, seed):
    draws = torch.Generator().manual_seed(seed)
    return tuple(x + 0.3 * torch.randn(x.shape, generator=draws) for _ in range(2))


def info_nce(query, key, x, queue, seed):
    """The loss, and the keys for the queue."""
    one, two = views(x, seed)
    q = F.normalize(query(one), dim=1)
    with torch.no_grad():
        k = F.normalize(key(two), dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / HEAT
    return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long)), k


@torch.no_grad()
def follow(key, query):
    for slow, fast in zip(key.parameters(), query.parameters()):
        slow.lerp_(fast, 1 - MOMENTUM)


def retrieval(query, x):
    """How often the nearest second view of a sample is its own."""
    one, two = (F.normalize(query(view), dim=1) for view in views(x, 10_000))
    return ((one @ two.T).argmax(1) == torch.arange(len(x))).float()
