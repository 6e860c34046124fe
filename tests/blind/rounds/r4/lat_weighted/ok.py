"""One-step forecast of a temperature anomaly field on an 18 x 36 grid."""
import torch
import torch.nn as nn

NLAT, NLON, STEPS = 18, 36, 500


def simulate(steps, seed):
    """Advected, damped and stochastically forced field."""
    g = torch.Generator().manual_seed(seed)
    field = torch.randn(NLAT, NLON, generator=g)
    out = []
    for _ in range(steps + 50):
        shifted = 0.7 * field.roll(1, 1) + 0.3 * field
        north = torch.cat([shifted[:1], shifted[:-1]])
        south = torch.cat([shifted[1:], shifted[-1:]])
        field = 0.95 * (0.6 * shifted + 0.2 * north + 0.2 * south)
        field = field + 0.25 * torch.randn(NLAT, NLON, generator=g)
        out.append(field)
    return torch.stack(out[50:])


def latitude_weights():
    lat = torch.linspace(-85.0, 85.0, NLAT)
    w = torch.cos(torch.deg2rad(lat))
    return (w / w.mean())[:, None]


class Forecaster(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.lift = nn.Conv2d(1, ch, 3)
        self.proj = nn.Conv2d(ch, 1, 3)

    @staticmethod
    def pad(x):
        x = nn.functional.pad(x, (1, 1, 0, 0), mode="circular")
        return nn.functional.pad(x, (0, 0, 1, 1), mode="replicate")

    def forward(self, x):
        h = torch.tanh(self.lift(self.pad(x)))
        return x + self.proj(self.pad(h))


def weighted_loss(pred, target, weights):
    err = nn.functional.huber_loss(pred, target, delta=1.0, reduction="none")
    return (err * weights).mean()


@torch.no_grad()
def rmse(model, x, y):
    model.eval()
    lat = torch.linspace(-85, 85, NLAT) * torch.pi / 180
    area = (lat.cos() / lat.cos().mean())[:, None]
    return ((model(x) - y) ** 2 * area).mean().sqrt().item(), ((x - y) ** 2 * area).mean().sqrt().item()


def main():
    torch.manual_seed(3)
    series = simulate(STEPS, 1)[:, None]
    split = int(0.8 * STEPS)
    train_x, train_y = series[:split - 1], series[1:split]
    val_x, val_y = series[split:-1], series[split + 1:]
    weights = latitude_weights()
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        running, batches = 0.0, 0
        for idx in torch.randperm(len(train_x)).split(20):
            loss = weighted_loss(model(train_x[idx]), train_y[idx], weights)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item()
            batches += 1
        score, persistence = rmse(model, val_x, val_y)
        print(f"epoch {epoch:2d} loss {running / batches:.4f} val RMSE {score:.4f} (persistence {persistence:.4f})")


if __name__ == "__main__":
    main()
