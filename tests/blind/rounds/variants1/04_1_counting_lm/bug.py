import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

VOCAB, LENGTH, ACCUM = 16, 12, 8


class Counting(Dataset):
    """Sequences that count on with a constant stride modulo VOCAB."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, VOCAB, (n, 1), generator=g)
        stride = torch.randint(1, 4, (n, 1), generator=g)
        self.rows = (start + stride * torch.arange(LENGTH + 1)) % VOCAB

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i, :-1], self.rows[i, 1:]


class Context(nn.Module):
    """Predicts the next token from the last two."""

    def __init__(self, d=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, d)
        self.net = nn.Sequential(nn.Linear(2 * d, 96), nn.ReLU(), nn.Linear(96, VOCAB))

    def forward(self, x):
        before = F.pad(x[:, :-1], (1, 0), value=VOCAB)
        return self.net(torch.cat([self.emb(x), self.emb(before)], -1))


def token_loss(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


torch.manual_seed(0)
model = Context()
opt = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
loader = DataLoader(Counting(2560, 1), batch_size=16, shuffle=True)
valid = DataLoader(Counting(400, 2), batch_size=200)

for epoch in range(8):
    model.train()
    logged, opt_steps = 0.0, 0
    opt.zero_grad()
    for k, batch in enumerate(loader, 1):
        loss = token_loss(model, batch)
        loss.backward()
        logged += loss.item() / ACCUM
        if k % ACCUM == 0:
            opt.step()
            opt.zero_grad()
            opt_steps += 1
    model.eval()
    with torch.no_grad():
        held = sum(token_loss(model, b).item() for b in valid) / len(valid)
    print(f"epoch {epoch} train {logged / opt_steps:.3f} held-out {held:.3f}")
