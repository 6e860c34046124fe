import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
N_USERS, N_ITEMS, DIM = 120, 80, 8
u_true, i_true = torch.randn(N_USERS, 4), torch.randn(N_ITEMS, 4)
users = torch.randint(0, N_USERS, (9000,))
items = torch.randint(0, N_ITEMS, (9000,))
ratings = (u_true[users] * i_true[items]).sum(-1) / 2 + 0.1 * torch.randn(9000)
train, valid = slice(0, 8000), slice(8000, 9000)


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 32), nn.ReLU(), nn.Linear(32, DIM))

    def forward(self, e):
        return e + self.net(e)


tables = Tables()
towers = nn.ModuleDict({"user": Tower(), "item": Tower()})
opt_emb = torch.optim.SGD(tables.parameters(), lr=20.0)
opt_tower = torch.optim.Adam(towers.parameters(), lr=3e-3)


def score(u, i):
    return (towers["user"](tables.user(u)) * towers["item"](tables.item(i))).sum(-1) / DIM ** 0.5


def validate():
    towers.eval()
    with torch.no_grad():
        mse = F.mse_loss(score(users[valid], items[valid]), ratings[valid]).item()
    towers.train()
    return mse


step = 0
for epoch in range(10):
    order = torch.randperm(8000)
    total = 0.0
    for idx in order.split(256):
        pred = score(users[train][idx], items[train][idx])
        loss = F.mse_loss(pred, ratings[train][idx])
        opt_tower.zero_grad()
        loss.backward()
        opt_emb.step()
        opt_tower.step()
        total += loss.item() * len(idx)
        step += 1
    print(f"epoch {epoch} step {step} train mse {total / 8000:.4f} valid mse {validate():.4f}")
print(f"variance of the validation ratings {ratings[valid].var():.4f}")
