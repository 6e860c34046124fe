# %% Anomaly detection on pump sensors with a denoising autoencoder
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn

folder = sys.argv[1]
cfg = json.load(open(os.path.join(folder, "config.json")))
SEED = 10
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)

# %% data: the training file holds normal operation only
normal = np.load(os.path.join(folder, "train_normal.npy"))
test_x = np.load(os.path.join(folder, "test_x.npy"))
test_y = np.load(os.path.join(folder, "test_y.npy"))
perm = rng.permutation(len(normal))
n_val = len(normal) // 8
val_idx, tr_idx = perm[:n_val], perm[n_val:]
mean, std = normal[tr_idx].mean(0), normal[tr_idx].std(0)


def to_tensor(x):
    return torch.from_numpy(((x - mean) / std).astype(np.float32))


x_tr, x_va, x_te = to_tensor(normal[tr_idx]), to_tensor(normal[val_idx]), to_tensor(test_x)
print("train", tuple(x_tr.shape), "val", tuple(x_va.shape), "test", tuple(x_te.shape))


# %% model
class AutoEncoder(nn.Module):
    def __init__(self, d, hidden, code):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(),
                                     nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(),
                                     nn.Linear(hidden, d))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def recon_error(net, x):
    net.eval()
    with torch.no_grad():
        return ((net(x) - x) ** 2).mean(1)


def roc_auc(score, label):
    order = np.argsort(score)
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    n1 = label.sum()
    n0 = len(label) - n1
    return (rank[label == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


# %% training
net = AutoEncoder(cfg["channels"], cfg["hidden"], cfg["bottleneck"])
opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
best, best_state = np.inf, None
for epoch in range(cfg["epochs"]):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(x_tr)).split(cfg["batch_size"]):
        clean = x_tr[idx]
        loss = nn.functional.mse_loss(net(clean + 0.1 * torch.randn_like(clean)), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    sched.step()
    val = recon_error(net, x_va).mean().item()
    if val < best:
        best, best_state = val, {k: v.clone() for k, v in net.state_dict().items()}
    if (epoch + 1) % 10 == 0:
        print(f"epoch {epoch + 1:3d}  train {total / len(x_tr):.4f}  val {val:.4f}")

# %% evaluation
net.load_state_dict(best_state)
threshold = np.quantile(recon_error(net, x_va).numpy(), 0.99)
score = recon_error(net, x_te).numpy()
alarm = score > threshold
print("alarm rate on normal test %.3f" % alarm[test_y == 0].mean())
print("test_recall_at_99 %.4f" % alarm[test_y == 1].mean())
print("test_auc %.4f" % roc_auc(score, test_y.astype(int)))
