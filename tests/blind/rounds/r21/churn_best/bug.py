"""Mobile subscribers: will they leave next quarter? Keeps the epoch with the lowest validation loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

NUMERIC = ["tenure", "monthly_fee", "data_gb", "calls", "complaints", "late_payments", "discount", "roaming"]
PLANS, REGIONS = 6, 12


def subscribers(n, seed):
    g = torch.Generator().manual_seed(seed)
    num = torch.randn(n, len(NUMERIC), generator=g)
    num[:, 4:6] = torch.poisson(torch.full((n, 2), 0.8), generator=g)
    num[:, 0] = num[:, 0].exp() * 12
    plan = torch.randint(0, PLANS, (n,), generator=g)
    region = torch.randint(0, REGIONS, (n,), generator=g)
    effect = torch.linspace(-0.8, 0.8, PLANS)[torch.tensor([3, 0, 5, 1, 4, 2])]
    logit = (-0.06 * num[:, 0] + 0.5 * num[:, 1] + 0.9 * num[:, 4] + 0.6 * num[:, 5]
             - 0.7 * num[:, 6] * num[:, 1] + effect[plan])
    churn = (torch.rand(n, generator=g) < torch.sigmoid(logit)).float()
    return num, plan, region, churn


class ChurnModel(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.plan = nn.Embedding(PLANS, 4)
        self.region = nn.Embedding(REGIONS, 6)
        self.mlp = nn.Sequential(
            nn.Linear(len(NUMERIC) + 10, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, num, plan, region):
        return self.mlp(torch.cat([num, self.plan(plan), self.region(region)], 1)).squeeze(1)


def log_loss(model, table):
    model.eval()
    num, plan, region, y = table
    with torch.no_grad():
        return F.binary_cross_entropy_with_logits(model(num, plan, region), y).item()


class BestKeeper:
    """Remembers the best weights and tells when to stop."""

    def __init__(self, patience):
        self.patience = patience
        self.best = math.inf
        self.weights = None
        self.bad_epochs = 0

    def update(self, value, model):
        if value < self.best:
            self.best = value
            self.weights = model.state_dict()
            self.bad_epochs = 0
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def main():
    torch.manual_seed(2)
    train, valid, test = subscribers(1500, 10), subscribers(1500, 11), subscribers(4000, 12)
    mu, sd = train[0].mean(0), train[0].std(0)
    train, valid, test = [((t[0] - mu) / sd, *t[1:]) for t in (train, valid, test)]

    model = ChurnModel()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    keeper = BestKeeper(patience=15)
    for epoch in range(100):
        model.train()
        order = torch.randperm(len(train[3]))
        running = 0.0
        for idx in order.split(32):
            num, plan, region, y = (c[idx] for c in train)
            loss = F.binary_cross_entropy_with_logits(model(num, plan, region), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(idx)
        current = log_loss(model, valid)
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d} train {running / len(order):.4f} valid {current:.4f}")
        if keeper.update(current, model):
            print(f"stopped after epoch {epoch}")
            break

    model.load_state_dict(keeper.weights)
    print(f"best validation log loss {keeper.best:.4f}")
    print(f"test log loss: {log_loss(model, test):.4f}")


if __name__ == "__main__":
    main()
