# Synthetic operating states for a container-glass furnace: small denoising diffusion model on tabular sensor data.
import json
import numpy as np
import torch

CFG = json.loads("""
{
  "seed": 21, "rows": 3000, "steps": 80, "beta": [0.0005, 0.12],
  "width": 128, "epochs": 70, "batch": 128, "lr": 0.004, "n_eval": 600
}
""")
COLUMNS = ["crown_1", "crown_2", "bottom", "pull_t_d", "o2_pct", "glass_level", "nox"]


def furnace_log(rng, n):
    mode = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])  # flint, amber, green, idle
    pull = np.array([280.0, 240.0, 210.0, 90.0])[mode] + rng.normal(0, 8, n)
    o2 = np.array([1.6, 2.6, 2.1, 4.2])[mode] + rng.normal(0, 0.15, n)
    crown_1 = np.array([1560.0, 1545.0, 1552.0, 1490.0])[mode] + 0.15 * (pull - 200) + rng.normal(0, 2, n)
    crown_2 = crown_1 + 12 - 4 * o2 + rng.normal(0, 1.5, n)
    bottom = 1180 + 0.5 * (crown_1 - 1550) - np.array([0, 35, 25, 5])[mode] + rng.normal(0, 3, n)
    level = 0.6 * np.sin(pull / 25) + rng.normal(0, 0.1, n)
    nox = 500 + 3 * (crown_1 - 1550) + 60 * o2 + rng.normal(0, 12, n)
    return np.stack([crown_1, crown_2, bottom, pull, o2, level, nox], 1)


class Denoiser(torch.nn.Module):
    def __init__(self, dim, width, steps):
        super().__init__()
        self.steps = steps
        self.time = torch.nn.Sequential(torch.nn.Linear(9, width), torch.nn.SiLU(), torch.nn.Linear(width, width))
        self.inp = torch.nn.Linear(dim, width)
        self.h1 = torch.nn.Linear(width, width)
        self.h2 = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, dim)

    def forward(self, x, t):
        s = (t.float() / self.steps).unsqueeze(1)
        waves = torch.cat([s] + [f(k * s) for k in (2, 4, 8, 16) for f in (torch.sin, torch.cos)], 1)
        h = torch.nn.functional.silu(self.inp(x) + self.time(waves))
        h = h + torch.nn.functional.silu(self.h1(h))
        h = h + torch.nn.functional.silu(self.h2(h))
        return self.out(h)


class Diffusion:
    def __init__(self, steps, beta):
        self.steps = steps
        self.betas = torch.linspace(beta[0], beta[1], steps)
        self.alphas = 1.0 - self.betas
        self.alpha_bar = torch.cumprod(self.alphas, 0)

    def corrupt(self, x0, t, eps):
        a = self.alphas[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    @torch.no_grad()
    def sample(self, net, n, dim):
        x = torch.randn(n, dim)
        for step in range(self.steps - 1, -1, -1):
            t = torch.full((n,), step, dtype=torch.long)
            beta, alpha, bar = self.betas[step], self.alphas[step], self.alpha_bar[step]
            x = (x - beta / (1 - bar).sqrt() * net(x, t)) / alpha.sqrt()
            if step > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def train(net, diff, data):
    opt = torch.optim.Adam(net.parameters(), lr=CFG["lr"])
    n_batches = len(data) // CFG["batch"]
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, CFG["lr"], total_steps=CFG["epochs"] * n_batches)
    for epoch in range(CFG["epochs"]):
        total = 0.0
        order = torch.randperm(len(data))
        for k in range(n_batches):
            x0 = data[order[k * CFG["batch"]:(k + 1) * CFG["batch"]]]
            t = torch.randint(0, diff.steps, (len(x0),))
            eps = torch.randn_like(x0)
            loss = torch.mean((net(diff.corrupt(x0, t, eps), t) - eps) ** 2)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 10 == 9:
            print("epoch %d | noise mse %.4f" % (epoch + 1, total / n_batches))


rng = np.random.default_rng(CFG["seed"])
torch.manual_seed(CFG["seed"])
log = furnace_log(rng, CFG["rows"])
cut = CFG["rows"] - CFG["n_eval"]
mean, std = log[:cut].mean(0), log[:cut].std(0)
scaled = torch.tensor((log - mean) / std, dtype=torch.float32)

net = Denoiser(len(COLUMNS), CFG["width"], CFG["steps"])
diff = Diffusion(CFG["steps"], CFG["beta"])
train(net, diff, scaled[:cut])

net.eval()
fake = diff.sample(net, CFG["n_eval"], len(COLUMNS))
real = scaled[cut:]
for i, name in enumerate(COLUMNS):
    f, r = fake[:, i] * std[i] + mean[i], real[:, i] * std[i] + mean[i]
    print("%-12s real %8.1f +- %6.2f   generated %8.1f +- %6.2f" % (name, r.mean(), r.std(), f.mean(), f.std()))
print("energy distance to held-out rows: %.4f" % energy_distance(fake, real))
