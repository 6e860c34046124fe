import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(20)
V, BOS = 14, 0


def phrase(length):
    """Counts up or down in steps that depend on the direction token."""
    start, kind = int(torch.randint(3, V, (1,))), int(torch.randint(1, 3, (1,)))
    step = 1 if kind == 1 else -2
    body = [(start - 3 + step * i) % (V - 3) + 3 for i in range(length)]
    return torch.tensor([BOS, kind] + body)


def corpus(n):
    lengths = torch.where(torch.rand(n) < 0.5, 2, 22).tolist()
    return [phrase(k) for k in lengths]


def buckets(rows, size):
    """Batches of sequences of one length, so that no padding is needed."""
    by_len = {}
    for row in rows:
        by_len.setdefault(len(row), []).append(row)
    for _, group in sorted(by_len.items()):
        yield from torch.stack(group).split(size)


class LM(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(V, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, V)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


def token_loss(model, batch, reduction="mean"):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction=reduction)


def evaluate(model, batches):
    model.eval()
    losses = []
    with torch.no_grad():
        for batch in batches:
            losses.append(token_loss(model, batch).item())
    return sum(losses) / len(losses)


train_batches = list(buckets(corpus(1200), 32))
valid_batches = list(buckets(corpus(300), 32))
model = LM()
opt = torch.optim.Adam(model.parameters(), lr=6e-3)

for epoch in range(8):
    model.train()
    for i in torch.randperm(len(train_batches)).tolist():
        loss = token_loss(model, train_batches[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    nll = evaluate(model, valid_batches)
    print(f"epoch {epoch}  {len(train_batches)} batches  valid nll per token {nll:.4f}  perplexity {math.exp(nll):.3f}")
