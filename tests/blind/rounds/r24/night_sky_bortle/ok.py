"""Bortle class (merged to six steps) of a night sky at monitoring posts, from what is known before the meter is read."""
import numpy as np
import torch
from torch import nn

conf = dict(seed=8, posts=40, nights=9, held_nights=24, epochs=45, batch=36, lr=2e-3, patience=20, width=96)
torch.manual_seed(conf["seed"])
rng = np.random.default_rng(conf["seed"])

posts = dict(
    lamps=rng.gamma(2.0, 1.2, conf["posts"]),
    dist=rng.uniform(0.5, 40, conf["posts"]),
    alt=rng.uniform(0, 2.2, conf["posts"]),
)


def nights(per_post):
    who = np.repeat(np.arange(conf["posts"]), per_post)
    n = len(who)
    moon_alt, moon_lit = rng.uniform(-60, 60, n), rng.uniform(0, 1, n)
    cloud, aerosol = rng.beta(0.6, 0.6, n), rng.lognormal(-2.0, 0.5, n)
    milky, hour = rng.uniform(0, 90, n), rng.uniform(-5, 5, n)
    humid, temp = rng.uniform(30, 100, n), rng.normal(8, 9, n)
    glow = 3.0 * posts["lamps"][who] / (1 + posts["dist"][who] / 6) ** 1.6 * (1 + 2.4 * cloud + 2 * aerosol)
    moon = 6.0 * moon_lit ** 2 * np.clip(np.sin(np.radians(moon_alt)), 0, 1) * (1 - 0.7 * cloud)
    natural = 1.0 * np.exp(-0.12 * posts["alt"][who]) + 0.4 * np.cos(np.radians(milky)) ** 2 * (1 - cloud)
    late = 1.0 - 0.3 / (1 + np.exp(-(hour - 1)))
    mag = 21.9 - 2.5 * np.log10(natural + moon + glow * late) + rng.normal(0, 0.25, n)
    noise = rng.normal(0, 1, (n, 12))
    x = np.column_stack([np.log(posts["lamps"][who]), np.log(posts["dist"][who]), posts["alt"][who], moon_alt, moon_lit,
                         cloud, np.log(aerosol), milky, hour, humid, temp, noise])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(np.digitize(mag, [17.6, 18.6, 19.6, 20.5, 21.2]))


class Res(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w))

    def forward(self, x):
        return x + self.f(x)


def keeper(net):
    """Remember the weights with the lowest validation error."""
    best = {"err": float("inf"), "at": 0, "weights": None}

    def look(err, epoch):
        if err < best["err"]:
            best.update(err=err, at=epoch, weights={k: v.detach().clone() for k, v in net.state_dict().items()})
        return epoch - best["at"] < conf["patience"]

    def restore():
        net.load_state_dict(best["weights"])
        return best["at"], best["err"]

    return look, restore


def stepper(net, opt, x, y):
    def epoch():
        total = 0.0
        for idx in torch.randperm(len(x)).split(conf["batch"]):
            def closure():
                opt.zero_grad()
                loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
                loss.backward()
                return loss
            total += opt.step(closure).item() * len(idx)
        return total / len(x)
    return epoch


@torch.no_grad()
def score(net, x, y):
    net.eval()
    logits = net(x)
    net.train()
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


xt, yt = nights(conf["nights"])
xv, yv = nights(8)
xh, yh = nights(conf["held_nights"])
mx, sx = xt.mean(0), xt.std(0)
xt, xv, xh = ((a - mx) / sx for a in (xt, xv, xh))

net = nn.Sequential(nn.Linear(xt.shape[1], conf["width"]), Res(conf["width"]), Res(conf["width"]), nn.Linear(conf["width"], 6))
opt = torch.optim.Adam(net.parameters(), lr=conf["lr"])
look, restore = keeper(net)
train_epoch = stepper(net, opt, xt, yt)

for epoch in range(1, conf["epochs"] + 1):
    loss = train_epoch()
    err, acc = score(net, xv, yv)
    if epoch % 5 == 0:
        print(f"{epoch:4d}  train {loss:.4f}  valid {err:.3f}  acc {acc:.3f}")
    if not look(err, epoch):
        break

at, err = restore()
print("best epoch %d: valid log loss %.3f" % (at, err))
print("test log loss %.3f, test accuracy %.3f" % score(net, xh, yh))
