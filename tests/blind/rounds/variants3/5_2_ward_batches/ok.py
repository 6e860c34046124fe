import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(14)
WARDS, FEATURES = 30, 7
true_w = torch.tensor([1.2, -0.8, 0.0, 0.6, 0.0, 0.4, -1.0])


def cohort(rows_per_ward):
    """Patients arrive ward by ward; wards differ in how ill their patients are."""
    xs, ys = [], []
    for _ in range(WARDS):
        level = 1.3 * torch.randn(FEATURES)
        x = 5 + level + torch.randn(rows_per_ward, FEATURES)
        risk = (x - 5) @ true_w
        xs.append(2.5 * x)
        ys.append(risk + 0.3 * torch.tanh(risk) + 0.2 * torch.randn(rows_per_ward))
    return xs, ys


def standardizer(reference):
    mu, sd = reference.mean(0), reference.std(0)

    def apply(x):
        return (x - mu) / sd.clamp_min(1e-6)

    return apply


def make_stepper(net, lr):
    opt = torch.optim.RMSprop(net.parameters(), lr=lr)

    def stepper(x, y):
        opt.zero_grad()
        loss = F.mse_loss(net(x).squeeze(1), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return stepper


train_wards, train_targets = cohort(40)
valid_wards, valid_targets = cohort(20)
train_x, train_y = torch.cat(train_wards), torch.cat(train_targets)
valid_y = torch.cat(valid_targets)

prepare = standardizer(train_x)
train_x = prepare(train_x)

net = nn.Sequential(nn.Linear(FEATURES, 48), nn.ELU(), nn.Linear(48, 24), nn.ELU(), nn.Linear(24, 1))
stepper = make_stepper(net, lr=2e-3)

for epoch in range(12):
    net.train()
    parts = torch.randperm(len(train_x)).split(60)
    mean_loss = torch.stack([stepper(train_x[p], train_y[p]) for p in parts]).mean()
    net.eval()
    with torch.no_grad():
        pred = torch.cat([net(prepare(ward)).squeeze(1) for ward in valid_wards])
    mse = F.mse_loss(pred, valid_y)
    print(f"epoch {epoch:2d}  train {mean_loss:.4f}  valid {mse:.4f}  "
          f"R2 {1 - (mse / valid_y.var(unbiased=False)).item():.4f}")
