# Cup score of coffee lots from roast curve + origin features
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import StepLR

torch.manual_seed(21)

NUM_LOTS = 2000


def make_lots(n):
    charge_temp = torch.rand(n) * 40 + 180
    drop_temp = torch.rand(n) * 30 + 200
    dev_ratio = torch.rand(n) * 0.15 + 0.1
    altitude = torch.rand(n) * 1500 + 600
    moisture = torch.rand(n) * 4 + 9
    feats = torch.stack([charge_temp, drop_temp, dev_ratio, altitude, moisture], dim=1)
    z = (feats - feats.mean(0)) / feats.std(0)
    score = 80 - 2 * (z[:, 1] - 0.3 * z[:, 3]) ** 2 - 1.5 * torch.abs(z[:, 2]) + 1.2 * z[:, 3]
    score = score + torch.sin(2 * z[:, 0]) - 0.5 * z[:, 4] + 0.2 * torch.randn(n)
    return z, score


X, score = make_lots(NUM_LOTS)
cut = int(0.8 * NUM_LOTS)
y = (score - score[:cut].mean()) / score[:cut].std()
x_tr, y_tr, x_te, y_te = X[:cut], y[:cut], X[cut:], y[cut:]

net = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
sched = StepLR(opt, step_size=7, gamma=0.5)
mse = nn.MSELoss()


def evaluate():
    net.eval()
    with torch.no_grad():
        out = net(x_te).squeeze(-1)
    net.train()
    return 1 - (mse(out, y_te) / y_te.var(unbiased=False)).item()


for epoch in range(20):
    perm = torch.randperm(cut)
    for k in range(0, cut, 64):
        sel = perm[k:k + 64]
        opt.zero_grad()
        loss = mse(net(x_tr[sel]).squeeze(-1), y_tr[sel])
        loss.backward()
        opt.step()
    sched.step()
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1:2d}  train mse {loss.item():.4f}  test r2 {evaluate():.3f}")

print("final test r2: %.3f" % evaluate())
