# Share of a podcast episode that listeners hear to the end, from features of its two-minute segments
import json, os, sys
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

folder = sys.argv[1]
with open(os.path.join(folder, "params.json")) as f:
    hp = json.load(f)
torch.manual_seed(hp["seed"])

data = np.load(os.path.join(folder, "episodes.npz"))
feats, lens = data["features"], data["n_segments"]
target, split = data["completion"], data["split"]
tr, va = np.flatnonzero(split == 0), np.flatnonzero(split == 1)

steps = np.arange(feats.shape[1])[None, :] < lens[:, None]
seen = feats[tr][steps[tr]]
m, s = seen.mean(0), seen.std(0)
feats = np.where(steps[:, :, None], (feats - m) / s, 0.0).astype(np.float32)
t_m, t_s = target[tr].mean(), target[tr].std()

X = torch.from_numpy(feats)
L = torch.from_numpy(lens.astype(np.int64))
Y = torch.from_numpy((target - t_m) / t_s)


class Engagement(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.gru = nn.GRU(n_in, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.fc1 = nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.fc2(torch.relu(self.fc1(self.norm(h[-1]))))[:, 0]


net = Engagement(X.shape[2], hp["hidden"])
opt = torch.optim.Adam(net.parameters(), lr=hp["lr"])
sched = torch.optim.lr_scheduler.OneCycleLR(
    opt, hp["lr"], epochs=hp["epochs"], steps_per_epoch=-(-len(tr) // hp["batch_size"]))


def validate():
    net.eval()
    with torch.no_grad():
        p = net(X[va], L[va]).numpy() * t_s + t_m
    return np.abs(p - target[va]).mean()


print("episodes:", len(tr), "train,", len(va), "validation")
for epoch in range(hp["epochs"]):
    net.train()
    tot, cnt = 0.0, 0
    for b in torch.from_numpy(tr)[torch.randperm(len(tr))].split(hp["batch_size"]):
        loss = nn.functional.mse_loss(net(X[b], L[b]), Y[b])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), hp["max_norm"])
        opt.step()
        sched.step()
        tot, cnt = tot + loss.item() * len(b), cnt + len(b)
    print("epoch %2d  mse %.4f  val mae %.2f points" % (epoch + 1, tot / cnt, validate()))
print("validation MAE of completion: %.3f points" % validate())
