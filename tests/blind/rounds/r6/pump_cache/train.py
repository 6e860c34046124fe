"""Acoustic condition monitoring: autoencoder on log-spectra of normal machine sound."""
import os
import sys
import numpy as np
import torch
import torch.nn as nn

folder = sys.argv[1]
torch.manual_seed(15)
T = 256


def features(q):
    x = q.astype(np.float32) / 25
    win = np.hanning(T).astype(np.float32)
    p = np.abs(np.fft.rfft(x * win, axis=1))[:, :128] ** 2
    return np.log(p.reshape(len(p), 32, 4).mean(2) + 1e-2).astype(np.float32)


raw = np.load(f"{folder}/signals.npz")
cache = f"{folder}/features_cache.npz"
if os.path.exists(cache):
    normal = np.load(cache)["normal"]
else:
    normal = features(raw["normal"])
    np.savez_compressed(cache, normal=normal)
normal = torch.from_numpy(normal)
test_x = torch.from_numpy(features(raw["test"]))
test_y = torch.from_numpy(raw["broken"].astype(np.int64))
i_tr, i_va = torch.randperm(len(normal)).split([320, 80])
mu, sd = normal[i_tr].mean(0), normal[i_tr].std(0)
train_x, val_x, test_x = ((z - mu) / sd for z in (normal[i_tr], normal[i_va], test_x))

enc = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))
dec = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32))
params = [*enc.parameters(), *dec.parameters()]
opt = torch.optim.Adam(params, lr=3e-3, weight_decay=1e-5)


@torch.no_grad()
def score(x):
    enc.eval(), dec.eval()
    return (dec(enc(x)) - x).pow(2).mean(1)


def auroc(s, y):
    pos, neg = s[y == 1], s[y == 0]
    return (pos[:, None] > neg[None]).float().mean().item()


for epoch in range(1, 41):
    enc.train(), dec.train()
    tot = 0.0
    for b in torch.randperm(len(train_x)).split(32):
        loss = (dec(enc(train_x[b])) - train_x[b]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(b)
    if epoch % 5 == 0:
        print(f"epoch {epoch:2d} train {tot / len(train_x):.4f} val {score(val_x).mean():.4f}")

threshold = score(val_x).quantile(0.95)
s = score(test_x)
alarms = (s > threshold).float()
print(f"test AUROC {auroc(s, test_y):.3f}  false alarms {alarms[test_y == 0].mean():.3f}  detected {alarms[test_y == 1].mean():.3f}")
torch.save({"enc": enc.state_dict(), "dec": dec.state_dict(), "mu": mu, "sd": sd, "threshold": threshold}, "/tmp/pump_ae.pt")
