import sys
import os
import numpy as np
import torch
import torch.nn as nn

# bus delay at stop (minutes) from trip and stop features; residual MLP


def load(folder, name):
    path = os.path.join(folder, name + ".csv")
    with open(path) as f:
        header = f.readline().strip().split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    hour = table[:, header.index("hour")]
    cyc = np.stack([np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)], 1)
    weekend = (table[:, header.index("dow")] >= 5).astype(np.float32)[:, None]
    return np.concatenate([table[:, :-1], cyc.astype(np.float32), weekend], 1), table[:, -1]


class Res(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, x):
        return x + self.f(x)


def build(n_in, d=64):
    return nn.Sequential(nn.Linear(n_in, d), Res(d), Res(d), nn.LayerNorm(d), nn.Linear(d, 1))


def predict(net, x):
    net.eval()
    with torch.no_grad():
        return net(x).squeeze(1)


def r2(p, t):
    return 1 - ((p - t) ** 2).sum().item() / ((t - t.mean()) ** 2).sum().item()


def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    xtr, ytr = load(folder, "train")
    xva, yva = load(folder, "val")
    m, s = xtr.mean(0), xtr.std(0) + 1e-6
    xtr, xva = torch.from_numpy((xtr - m) / s), torch.from_numpy((xva - m) / s)
    ytr, yva = torch.from_numpy(ytr), torch.from_numpy(yva)
    ym, ys = ytr.mean(), ytr.std()
    print("train", tuple(xtr.shape), "val", tuple(xva.shape))

    net = build(xtr.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, state = -1e9, None
    for epoch in range(30):
        net.train()
        perm = torch.randperm(len(xtr))
        losses = []
        for i in range(0, len(perm), 32):
            b = perm[i:i + 32]
            loss = nn.functional.smooth_l1_loss(net(xtr[b]).squeeze(1), (ytr[b] - ym) / ys)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        score = r2(predict(net, xva) * ys + ym, yva)
        if score > best:
            best, state = score, {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 5 == 4:
            print("epoch %2d loss %.4f val R2 %.4f" % (epoch + 1, np.mean(losses), score))
    net.load_state_dict(state)
    p = predict(net, xva) * ys + ym
    print("validation R2 %.4f MAE %.3f min" % (r2(p, yva), (p - yva).abs().mean()))


main()
