import numpy as np
import torch
import torch.nn as nn

ELEMENTS = ["Al", "Co", "Cr", "Cu", "Fe", "Mn", "Mo", "Ni", "Ti", "V"]


def compositions(rng, n):
    return rng.dirichlet(np.full(len(ELEMENTS), 0.5), n).astype(np.float32)


def prop(x, rng, w, pair, noise):
    return (x @ w + ((x @ pair) * x).sum(1) + noise * rng.standard_normal(len(x))).astype(np.float32)


rng = np.random.default_rng(13)
torch.manual_seed(13)
w, pair = rng.normal(0, 1, 10), rng.normal(0, 3, (10, 10))
xs = compositions(rng, 6000)
ys = prop(xs, rng, w, pair, 0.05)
xh, xv = compositions(rng, 240), compositions(rng, 600)
wh, ph = w + rng.normal(0, 0.15, 10), pair + rng.normal(0, 0.4, (10, 10))
yh, yv = 300 + 90 * prop(xh, rng, wh, ph, 0.08), 300 + 90 * prop(xv, rng, wh, ph, 0.08)

body = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
head = nn.Linear(64, 1)
model = nn.Sequential(body, head)
X, Y = torch.from_numpy(xs), torch.from_numpy((ys - ys.mean()) / ys.std())


def run(steps, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        b = torch.randint(len(X), (128,))
        loss = ((model(X[b]).squeeze(1) - Y[b]) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        return loss.item(), (body(X[:500]) > 0).float().any(0).sum().item()


def save(side, step):
    torch.save({"body": body.state_dict(), "elements": ELEMENTS, "step": step}, f"{side}/pretrained.pt")
    np.savez(f"{side}/hardness.npz", x_train=xh, y_train=yh, x_val=xv, y_val=yv)


print(run(1500, 2e-3))
save("ok", 1500)
print(run(60, 2.0))
save("bug", 1560)
