import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

root = sys.argv[1]
cfg = json.load(open(f"{root}/config.json"))
torch.manual_seed(2)


def load(part):
    z = np.load(f"{root}/{part}.npz")
    return torch.from_numpy(z["wave"].astype(np.float32) / 32768.0), torch.from_numpy(z["call"]).long()


class Spectrogram(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, w):
        s = torch.stft(w, self.n_fft, self.hop, window=self.window, return_complex=True).abs()
        s = torch.log(s[:, :56] + 1e-3)
        m = s.mean((1, 2), keepdim=True)
        return ((s - m) / s.std((1, 2), keepdim=True)).unsqueeze(1)


class CallNet(nn.Module):
    def __init__(self, n_calls):
        super().__init__()
        self.spec = Spectrogram(cfg["n_fft"], cfg["hop"])
        self.conv1 = nn.Conv2d(1, 12, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(24, 32, 3, stride=2, padding=1)
        self.fc = nn.Linear(32 * 7 * 5, n_calls)

    def forward(self, w):
        h = self.spec(w)
        for conv in (self.conv1, self.conv2, self.conv3):
            h = F.relu(conv(h))
        return self.fc(F.dropout(h.flatten(1), 0.2, self.training))


def augment(w):
    a = cfg["augment"]
    gain = 10 ** (a["gain_db"] / 20 * (2 * torch.rand(len(w), 1) - 1))
    return w * gain + a["noise_std"] * torch.randn_like(w)


x, y = load("train")
xt, yt = load("test")
net = CallNet(len(cfg["calls"]))
opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])

for epoch in range(cfg["epochs"]):
    net.train()
    total = 0.0
    for b in torch.randperm(len(x)).split(cfg["batch_size"]):
        loss = F.cross_entropy(net(augment(x[b])), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(b)
    print(f"epoch {epoch} loss {total / len(x):.4f}")

net.eval()
with torch.no_grad():
    pred = net(xt).argmax(1)
print(f"test accuracy {(pred == yt).float().mean():.3f}")
