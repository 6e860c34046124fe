"""One trunk, three questions about a household: energy use, heating type, number of complaints."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def households(n, seed):
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(500)
    x = rng.normal(size=(n, 16))
    mix = w.normal(size=(16, 6)) / 4
    z = np.tanh(2 * x @ mix)
    energy = 2.0 * z[:, 0] * z[:, 1] + z[:, 2] + rng.normal(0, 0.2, n)
    scores = 3 * z @ w.normal(size=(6, 4)) + rng.gumbel(size=(n, 4)) * 0.5
    rate = np.exp(0.3 + 1.0 * z[:, 3] - 0.8 * z[:, 4])
    count = rng.poisson(rate)
    to = lambda a, d: torch.tensor(a, dtype=d)
    return TensorDataset(to(x, torch.float32), to(energy, torch.float32),
                         to(scores.argmax(1), torch.long), to(count, torch.float32))


class Household(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, d), nn.GELU(), nn.Linear(d, d), nn.GELU())
        self.heads = nn.ModuleDict({
            "energy": nn.Linear(d, 1),
            "heating": nn.Linear(d, 4),
            "complaints": nn.Linear(d, 1),
        })

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


LOSSES = {
    "energy": lambda o, y: F.mse_loss(o.squeeze(1), y),
    "heating": F.cross_entropy,
    "complaints": lambda o, y: F.poisson_nll_loss(o.squeeze(1), y),
}
WEIGHTS = {"energy": 1.0, "heating": 1.0, "complaints": 0.7}


@torch.no_grad()
def scores(model, data):
    model.eval()
    x, e, h, c = data.tensors
    r2 = 1 - F.mse_loss(model(x, "energy").squeeze(1), e) / e.var()
    acc = (model(x, "heating").argmax(1) == h).float().mean()
    mu = model(x, "complaints").squeeze(1).exp()
    rho = torch.corrcoef(torch.stack([mu, c]))[0, 1]
    model.train()
    return {"energy": r2.item(), "heating": acc.item(), "complaints": rho.item()}


class Trainer:
    def __init__(self, model, lr=3e-3, epochs=15):
        self.model, self.epochs = model, epochs
        self.opt = torch.optim.RMSprop(model.parameters(), lr=lr / 3)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)

    def step(self, batch):
        x, *ys = batch
        out = {}
        self.opt.zero_grad()
        for (task, crit), y in zip(LOSSES.items(), ys):
            loss = WEIGHTS[task] * crit(self.model(x, task), y)
            loss.backward()
            out[task] = loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.opt.step()
        return out

    def run(self, loader):
        for ep in range(self.epochs):
            logs = [self.step(b) for b in loader]
            self.sched.step()
            mean = {k: np.mean([l[k] for l in logs]) for k in LOSSES}
            print(ep, " ".join(f"{k} {v:.3f}" for k, v in mean.items()),
                  f"sum {sum(mean.values()):.3f}")


if __name__ == "__main__":
    torch.manual_seed(21)
    train, test = households(6000, 1), households(2000, 2)
    model = Household()
    Trainer(model).run(DataLoader(train, batch_size=64, shuffle=True, drop_last=True))
    result = scores(model, test)
    print("test", {k: round(v, 3) for k, v in result.items()})
    print(f"mean of test scores {np.mean(list(result.values())):.4f}")
