import numpy as np
import torch

MIN = ["quartz", "calcite", "dolomite", "gypsum", "olivine", "albite", "hematite", "kaolinite", "aragonite", "anatase"]
rng = np.random.default_rng(91)
wn = np.linspace(100, 1300, 120)
lines = []
base = {"carb": [(1088, 1.0), (712, 0.3), (282, 0.6)]}
for i, m in enumerate(MIN):
    p = [(rng.uniform(130, 1250), rng.uniform(0.3, 1.0)) for _ in range(4)]
    if m in ("calcite", "dolomite", "aragonite"):
        s = {"calcite": 0, "dolomite": 12, "aragonite": -9}[m]
        p = [(c + s * (1 if k else 0.8), h) for k, (c, h) in enumerate(base["carb"])]
    lines.append(p)


def spectra(n, rng):
    y = rng.integers(len(MIN), size=n)
    x = np.zeros((n, 120), np.float32)
    for i in range(n):
        other = rng.integers(len(MIN))
        for k, w in ((y[i], 1.0), (other, rng.uniform(0, 0.45))):
            for c, h in lines[k]:
                x[i] += w * h * rng.uniform(0.7, 1.3) / (1 + ((wn - c - rng.normal(0, 3)) / rng.uniform(9, 14)) ** 2)
        x[i] += rng.uniform(0.2, 1.2) * np.exp(-((wn - rng.uniform(0, 1600)) / 600) ** 2) + rng.normal(0, 0.13, 120)
    return x, y


x, y = spectra(1600, rng)
xt, yt = spectra(500, rng)


def checkpoint(lr):
    """State of the run of the previous campaign, which saw a small part of the spectra."""
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(120, 64), torch.nn.ReLU(), torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, len(MIN)))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.02)
    a = x[:250] - x[:250].min(1, keepdims=True)
    a = torch.from_numpy((a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True))
    t = torch.from_numpy(y[:250])
    for _ in range(25):
        loss = torch.nn.functional.cross_entropy(net(a), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    opt.param_groups[0]["lr"] = lr
    return {"model": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 25, "campaign": "survey_2019"}


for side, lr in (("bug", 1e-7), ("ok", 1e-3)):
    np.savez(f"{side}/spectra.npz", train_x=x, train_y=y, test_x=xt, test_y=yt, wavenumber=wn)
    open(f"{side}/minerals.txt", "w").write("\n".join(MIN) + "\n")
    torch.save(checkpoint(lr), f"{side}/last.pt")
