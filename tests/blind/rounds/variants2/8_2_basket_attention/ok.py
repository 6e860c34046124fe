import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(37)
GOODS, SLOTS = 50, 10
price = 0.5 + torch.rand(GOODS + 1) * 2
price[0] = 0.0


def baskets(n):
    goods = torch.randint(1, GOODS + 1, (n, SLOTS))
    size = torch.randint(2, SLOTS, (n, 1))
    goods = torch.where(torch.arange(SLOTS)[None] < size, goods, torch.zeros_like(goods))
    value = price[goods]
    present = goods > 0
    mean = value.sum(1) / present.sum(1)
    return goods, mean + 0.3 * value.amax(1) + 0.03 * torch.randn(n)


class Pool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ask = nn.Parameter(0.2 * torch.randn(4, dim))
        self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, h, valid):
        score = torch.einsum("qd,nsd->nqs", self.ask, self.key(h)) / h.size(-1) ** 0.5
        score = score.masked_fill(~valid[:, None, :], -1e4)
        return (score.softmax(-1) @ self.value(h)).flatten(1)


class Basket(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.goods = nn.Embedding(GOODS + 1, dim)
        self.pool = Pool(dim)
        self.out = nn.Sequential(nn.Linear(4 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, goods):
        valid = goods.ne(0)
        return self.out(self.pool(self.goods(goods), valid)).squeeze(-1)


def fit(model, data, held, steps, size):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    goods, target = data
    for step in range(1, steps + 1):
        model.train()
        rows = torch.randint(0, len(goods), (size,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            prediction = model(goods[rows])
        loss = F.mse_loss(prediction.float(), target[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            model.eval()
            with torch.no_grad():
                err = F.mse_loss(model(held[0]), held[1])
            print(f"step {step} train {loss.item():.4f} val {err.item():.4f} target variance {held[1].var().item():.4f}")


fit(Basket(), baskets(3000), baskets(500), steps=300, size=64)
