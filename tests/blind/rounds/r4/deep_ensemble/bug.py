"""Deep ensemble: five networks, mean and spread for out-of-distribution alarms."""
import torch
import torch.nn as nn

MEMBERS = 5
SEED = 100


def pendulum_torque(n, low, high, gen):
    x = low + (high - low) * torch.rand(n, 2, generator=gen)
    y = torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 0]
    return x, y + 0.1 * torch.randn(n, generator=gen)


class Member(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def train_member(k, x, y, epochs=20, batch=40):
    torch.manual_seed(SEED)
    model = Member()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
    print(f"member {k}: final train mse {total / len(x):.4f}")
    return model.eval()


@torch.no_grad()
def ensemble(models, x):
    preds = torch.stack([m(x) for m in models])
    return preds.mean(0), preds.std(0)


def main():
    gen = torch.Generator().manual_seed(0)
    x, y = pendulum_torque(400, -2.0, 2.0, gen)
    x_val, y_val = pendulum_torque(300, -2.0, 2.0, gen)
    x_ood, _ = pendulum_torque(300, 3.0, 5.0, gen)
    models = [train_member(k, x, y) for k in range(MEMBERS)]
    for k, m in enumerate(models):
        with torch.no_grad():
            print(f"member {k}: val mse {nn.functional.mse_loss(m(x_val), y_val):.4f}")
    mean, std = ensemble(models, x_val)
    _, std_ood = ensemble(models, x_ood)
    mse = nn.functional.mse_loss(mean, y_val)
    alarm = (std_ood > std.quantile(0.95)).float().mean()
    print(f"ensemble val mse {mse:.4f} spread in-dist {std.mean():.4f} ood {std_ood.mean():.4f} ood alarm rate {alarm:.3f}")


if __name__ == "__main__":
    main()
