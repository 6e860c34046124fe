import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
DIM, LAYERS, EPOCHS, BATCH = 4, 6, 8, 128


def make_data(n, gen):
    """two curved sheets in four dimensions"""
    s = 2 * torch.rand(n, generator=gen) - 1
    side = torch.randint(0, 2, (n,), generator=gen).float() * 2 - 1
    x = torch.stack([s, s ** 2 + 0.5 * side, torch.sin(3 * s) * side, side * (1 + 0.3 * s)], 1)
    return x + 0.08 * torch.randn(n, DIM, generator=gen)


class Coupling(nn.Module):
    def __init__(self, mask, hidden=48):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(DIM, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2 * DIM))

    def forward(self, x):
        s, t = self.net(x * self.mask).chunk(2, 1)
        s = torch.tanh(s) * (1 - self.mask)
        t = t * (1 - self.mask)
        return x * s.exp() + t, s.sum(1)


class RealNVP(nn.Module):
    def __init__(self):
        super().__init__()
        dims = torch.arange(DIM)
        masks = [((dims + layer) % 2 == 0).float() for layer in range(LAYERS)]
        self.layers = nn.ModuleList(Coupling(m) for m in masks)
        self.base = torch.distributions.Normal(0.0, 1.0)

    def log_prob(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        return self.base.log_prob(x).sum(1) + log_det


@torch.no_grad()
def nll(flow, x):
    flow.eval()
    value = -flow.log_prob(x).mean().item()
    flow.train()
    return value


gen = torch.Generator().manual_seed(21)
raw_train, raw_val = make_data(4000, gen), make_data(1000, gen)
mean, std = raw_train.mean(0), raw_train.std(0)
train_x, val_x = (raw_train - mean) / std, (raw_val - mean) / std
loader = DataLoader(TensorDataset(train_x), batch_size=BATCH, shuffle=True, drop_last=True)

flow = RealNVP()
optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3, weight_decay=1e-6)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
print(f"initial val nll {nll(flow, val_x):.3f}")
for epoch in range(1, EPOCHS + 1):
    total = 0.0
    for (x,) in loader:
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    scheduler.step()
    print(f"epoch {epoch} train nll {total / len(loader):.3f} val nll {nll(flow, val_x):.3f}")
gauss = torch.distributions.MultivariateNormal(torch.zeros(DIM), torch.cov(train_x.T))
print(f"final val nll {nll(flow, val_x):.3f} (full Gaussian fit {-gauss.log_prob(val_x).mean().item():.3f})")
