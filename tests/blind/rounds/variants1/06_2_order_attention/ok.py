import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def order_data(n, length=10, vocab=20):
    """Does token 1 stand in the first half and token 2 in the second? Both are always there."""
    x = torch.randint(3, vocab, (n, length))
    a = torch.randint(0, length, (n,))
    b = (a + torch.randint(1, length, (n,))) % length
    x[torch.arange(n), a] = 1
    x[torch.arange(n), b] = 2
    return TensorDataset(x, (a < b).long())


class Reader(nn.Module):
    def __init__(self, vocab=20, length=10, d=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(length, d))
        self.query = nn.Parameter(torch.zeros(1, 1, d))
        self.att = nn.MultiheadAttention(d, 4, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.out = nn.Linear(d, 2)

    def forward(self, x):
        h = self.tok(x) + self.pos
        h = h + self.att(h, h, h, need_weights=False)[0]
        h = h + self.ff(self.norm(h))
        w = (h * self.query).sum(-1, keepdim=True).softmax(1)
        return self.out((w * h).sum(1))


def param_groups(model, decay):
    named = list(model.named_parameters())
    heavy = [p for n, p in named if n.endswith("weight")]
    light = [p for n, p in named if not n.endswith("weight")]
    return [{"params": heavy, "weight_decay": decay}, {"params": light, "weight_decay": 0.0}]


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total = hits = count = 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            count += len(y)
    return total / count, hits / count


torch.manual_seed(3)
train = DataLoader(order_data(2400), batch_size=64, shuffle=True)
valid = DataLoader(order_data(500), batch_size=250)
model = Reader()
opt = torch.optim.AdamW(param_groups(model, 0.01), lr=4e-3)
for epoch in range(8):
    tr, va = run_epoch(model, train, opt), run_epoch(model, valid)
    print(f"epoch {epoch} train {tr[0]:.3f} {tr[1]:.3f} valid {va[0]:.3f} {va[1]:.3f}")
