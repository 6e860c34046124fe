import torch
from torch import nn

ACCUM = 4


def sequences(n, seed):
    """Sequences of 3 to 16 steps; the target is the sum of the marked entries."""
    g = torch.Generator().manual_seed(seed)
    out = []
    for length in torch.randint(3, 17, (n,), generator=g).tolist():
        value = torch.randn(length, generator=g)
        mark = (torch.rand(length, generator=g) < 0.5).float()
        out.append((torch.stack([value, mark], -1), (value * mark).sum()))
    return out


def buckets(data, size):
    data = sorted(data, key=lambda d: len(d[0]))
    for s in range(0, len(data), size):
        part = data[s:s + size]
        lengths = torch.tensor([len(x) for x, _ in part])
        x = nn.utils.rnn.pad_sequence([x for x, _ in part], batch_first=True)
        yield x, lengths, torch.stack([y for _, y in part])


class Summer(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.rnn = nn.GRU(2, h, batch_first=True)
        self.out = nn.Linear(h, 1)

    def forward(self, x, lengths):
        h, _ = self.rnn(x)
        return self.out(h[torch.arange(len(x)), lengths - 1]).squeeze(-1)


def step_window(model, opt, window):
    opt.zero_grad()
    for x, lengths, y in window:
        loss = ((model(x, lengths) - y) ** 2).mean() / len(window)
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        se = torch.cat([(model(x, n) - y) ** 2 for x, n, y in batches])
        size = torch.cat([n for _, n, _ in batches])
    model.train()
    return se.mean().item(), se[size > 12].mean().item()


torch.manual_seed(6)
train, valid = list(buckets(sequences(1408, 1), 64)), list(buckets(sequences(400, 2), 100))
model = Summer()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(24):
    windows = [train[s:s + ACCUM] for s in range(0, len(train) - ACCUM + 1, ACCUM)]
    for w in torch.randperm(len(windows)).tolist():
        step_window(model, opt, windows[w])
    if epoch % 4 == 3:
        print("epoch %d valid mse %.3f, of long sequences %.3f" % (epoch, *evaluate(model, valid)))
