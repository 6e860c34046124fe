import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
USERS, ITEMS, RANK = 200, 120, 4

p, q = torch.randn(USERS, RANK), torch.randn(ITEMS, RANK)
bu, bi = 0.5 * torch.randn(USERS), 0.7 * torch.randn(ITEMS)
cells = torch.randperm(USERS * ITEMS)[:14000]
user, item = cells // ITEMS, cells % ITEMS
rating = 3 + bu[user] + bi[item] + 0.5 * (p[user] * q[item]).sum(1) + 0.25 * torch.randn(len(cells))


def loaders(*tensors, n_valid=2000, **kw):
    return (
        DataLoader(TensorDataset(*(t[n_valid:] for t in tensors)), shuffle=True, **kw),
        DataLoader(TensorDataset(*(t[:n_valid] for t in tensors)), shuffle=True, **kw),
    )


class Factorization(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.pu = nn.Embedding(USERS, dim)
        self.qi = nn.Embedding(ITEMS, dim)
        self.bu = nn.Embedding(USERS, 1)
        self.bi = nn.Embedding(ITEMS, 1)
        self.mu = nn.Parameter(torch.tensor(3.0))
        for emb, s in ((self.pu, 0.3), (self.qi, 0.3), (self.bu, 0.0), (self.bi, 0.0)):
            nn.init.normal_(emb.weight, std=s)

    def forward(self, u, i):
        dot = (self.pu(u) * self.qi(i)).sum(1)
        return self.mu + self.bu(u)[:, 0] + self.bi(i)[:, 0] + dot


def report(model, loader):
    model.eval()
    with torch.no_grad():
        guess = torch.cat([model(u, i) for u, i, _ in loader])
        truth = torch.cat([r for _, _, r in loader])
    rmse = F.mse_loss(guess, truth).sqrt().item()
    corr = torch.corrcoef(torch.stack([guess, truth]))[0, 1].item()
    return rmse, corr


train_dl, valid_dl = loaders(user, item, rating, batch_size=500)
model = Factorization(6)
opt = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.02)

for epoch in range(12):
    model.train()
    total = 0.0
    for u, i, r in train_dl:
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / len(train_dl)
    rmse, corr = report(model, valid_dl)
    print(f"epoch {epoch:2d}  train mse {total:.4f}  valid rmse {rmse:.4f}  correlation {corr:.4f}")
