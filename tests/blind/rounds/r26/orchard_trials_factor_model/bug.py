"""Yield of apple rootstock trials: sites x cultivars, with latent site and cultivar vectors.

The first seasons cover only part of the network. Later the network grows: new sites and new cultivars
join, the tables are enlarged and the fit goes on with all plots.
"""
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
SITES, CULTIVARS, RANK = 70, 48, 3
EARLY_SITES, EARLY_CULTIVARS = 30, 20


def make_plots(n, sites, cultivars, rng, truth):
    s, c = rng.integers(0, sites, n), rng.integers(0, cultivars, n)
    frost, rain, trees = rng.poisson(1.5, n), rng.normal(620, 110, n), rng.uniform(1500, 3500, n)
    y = (34 + truth["site"][s] + truth["cult"][c] + (truth["u"][s] * truth["v"][c]).sum(1)
         - 2.4 * np.log1p(frost) - 3.0 * ((rain - 640) / 150) ** 2 + 0.002 * trees + rng.normal(0, 1.2, n))
    cov = np.stack([frost, rain, trees], 1).astype(np.float32)
    return torch.from_numpy(s), torch.from_numpy(c), torch.from_numpy(cov), torch.from_numpy(y.astype(np.float32))


class TrialModel(nn.Module):
    def __init__(self, sites, cultivars, rank):
        super().__init__()
        self.level = nn.Parameter(torch.zeros(1))
        self.site_effect = nn.Parameter(torch.zeros(sites))
        self.cult_effect = nn.Parameter(torch.zeros(cultivars))
        self.site_vec = nn.Parameter(0.3 * torch.randn(sites, rank))
        self.cult_vec = nn.Parameter(0.3 * torch.randn(cultivars, rank))
        self.weather = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, s, c, cov):
        mixed = (self.site_vec[s] * self.cult_vec[c]).sum(1)
        return self.level + self.site_effect[s] + self.cult_effect[c] + mixed + self.weather(cov).squeeze(1)

    @torch.no_grad()
    def enlarge(self, sites, cultivars):
        """Appends rows for new sites and cultivars; the old rows keep their values."""
        def longer(table, rows, scale):
            fresh = scale * torch.randn(rows - table.shape[0], *table.shape[1:])
            return nn.Parameter(torch.cat([table.detach(), fresh]))
        self.site_effect = longer(self.site_effect, sites, 0.0)
        self.cult_effect = longer(self.cult_effect, cultivars, 0.0)
        self.site_vec = longer(self.site_vec, sites, 0.3)
        self.cult_vec = longer(self.cult_vec, cultivars, 0.3)


class RmsStep:
    """Step with a running mean square per weight and momentum."""

    def __init__(self, weights, lr, beta=0.9, rho=0.98):
        self.weights, self.lr, self.beta, self.rho, self.n = list(weights), lr, beta, rho, 0
        self.m = [torch.zeros_like(w) for w in self.weights]
        self.v = [torch.zeros_like(w) for w in self.weights]

    def clear(self):
        for w in self.weights:
            w.grad = None

    @torch.no_grad()
    def step(self):
        self.n += 1
        for w, m, v in zip(self.weights, self.m, self.v):
            if w.grad is None:
                continue
            m.mul_(self.beta).add_(w.grad, alpha=1 - self.beta)
            v.mul_(self.rho).addcmul_(w.grad, w.grad, value=1 - self.rho)
            size = (v / (1 - self.rho ** self.n)).sqrt() + 1e-8
            w -= self.lr / (1 - self.beta ** self.n) * m / size


def fit(model, stepper, plots, check, epochs, lr, name):
    s, c, cov, y = plots
    for epoch in range(epochs):
        stepper.lr = lr * 0.5 * (1 + np.cos(np.pi * epoch / epochs)) + 5e-4
        total, batches = 0.0, 0
        for i in torch.randperm(len(y)).split(256):
            loss = ((model(s[i], c[i], cov[i]) - y[i]) ** 2).mean()
            stepper.clear()
            loss.backward()
            stepper.step()
            total, batches = total + loss.item(), batches + 1
        if epoch % 3 == 2:
            with torch.no_grad():
                mae = (model(*check[:3]) - check[3]).abs().mean() * model.y_scale
            print(f"{name} epoch {epoch + 1:2d}  mse {total / batches:.4f}  check plots MAE {mae.item():.2f} t/ha")


def main():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    truth = {"site": rng.normal(0, 4, SITES), "cult": rng.normal(0, 3, CULTIVARS),
             "u": rng.normal(0, 1.4, (SITES, RANK)), "v": rng.normal(0, 1.4, (CULTIVARS, RANK))}
    early = make_plots(4000, EARLY_SITES, EARLY_CULTIVARS, rng, truth)
    early_check = make_plots(600, EARLY_SITES, EARLY_CULTIVARS, rng, truth)
    full = make_plots(12000, SITES, CULTIVARS, rng, truth)
    check = make_plots(1500, SITES, CULTIVARS, rng, truth)

    cm, cs, ym, ys = early[2].mean(0), early[2].std(0), early[3].mean(), early[3].std()

    def scaled(p):
        return p[0], p[1], (p[2] - cm) / cs, (p[3] - ym) / ys

    model = TrialModel(EARLY_SITES, EARLY_CULTIVARS, RANK)
    model.y_scale = ys
    stepper = RmsStep(model.parameters(), lr=0.02)
    fit(model, stepper, scaled(early), scaled(early_check), 15, 0.02, "early network")

    model.enlarge(SITES, CULTIVARS)
    fit(model, stepper, scaled(full), scaled(check), 18, 0.02, "full network ")


if __name__ == "__main__":
    main()
