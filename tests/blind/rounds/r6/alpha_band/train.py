"""Eyes open / eyes closed from band-passed occipital EEG."""
import json
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
cfg = json.load(open(f"{folder}/config.json"))
torch.manual_seed(cfg["seed"])
z = np.load(f"{folder}/epochs.npz")
x = torch.from_numpy(z["eeg"].astype(np.float32))
y = torch.from_numpy(z["eyes_closed"].astype(np.int64))


def bandpass(sig, fs, lo, hi):
    freqs = torch.fft.rfftfreq(sig.shape[-1], d=1.0 / fs)
    spec = torch.fft.rfft(sig)
    gain = torch.sigmoid((freqs - lo) * 2.0) * torch.sigmoid((hi - freqs) * 2.0)
    return torch.fft.irfft(spec * gain, n=sig.shape[-1])


x = bandpass(x, cfg["sampling_rate_hz"], *cfg["band_hz"])
i_tr, i_va, i_te = torch.randperm(len(x)).split([240, 60, 100])
x = x / x[i_tr].std(dim=(0, 2), keepdim=True)


class BandNet(nn.Module):
    def __init__(self, n_ch):
        super().__init__()
        self.conv = nn.Conv1d(n_ch, 8, 17, padding=8)
        self.head = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, s):
        h = self.conv(s).pow(2).mean(-1)
        return self.head(torch.log(h + 1e-3))


net = BandNet(x.shape[1])
opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=1e-2)


@torch.no_grad()
def test(idx):
    net.eval()
    out = net(x[idx])
    return F.cross_entropy(out, y[idx]).item(), (out.argmax(1) == y[idx]).float().mean().item()


best, state = float("inf"), None
for ep in range(cfg["epochs"]):
    net.train()
    tot = 0.0
    for b in i_tr[torch.randperm(len(i_tr))].split(cfg["batch_size"]):
        loss = F.cross_entropy(net(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(b)
    vl, va = test(i_va)
    if vl < best:
        best, state = vl, {k: v.clone() for k, v in net.state_dict().items()}
    if ep % 5 == 4:
        print(f"ep {ep + 1:2d} train {tot / len(i_tr):.4f} val {vl:.4f} acc {va:.3f}")
net.load_state_dict(state)
print("test loss %.4f acc %.3f" % test(i_te))
