"""Detection of rare ischemic beats in single-lead ECG (simulated ward recordings)."""
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(21)
torch.manual_seed(21)
N_PAT, BEATS, T = 260, 10, 72
t = np.linspace(-0.25, 0.45, T)


def wave(amp, centre, width):
    return amp * np.exp(-((t - centre) / width) ** 2)


def record(sick):
    p_amp, q_amp, r_amp, s_amp = rng.uniform([.05, 0, .7, .05], [.2, .25, 1.5, .4])
    t_amp, t_pos, t_width, qrs = rng.uniform([.08, .22, .03, .010], [.4, .30, .06, .018])
    st = rng.normal(0.0, 0.05) - 0.16 * sick[:, None] + 0.03 * rng.standard_normal((BEATS, 1))
    shape = (wave(p_amp, -.16, .03) - wave(q_amp, -.03, .012) + wave(r_amp, 0, qrs) - wave(s_amp, .035, .014)
             + wave(st, .11, .045) + wave(t_amp, t_pos, t_width))
    gain = 1 + 0.02 * rng.standard_normal((BEATS, 1))
    return gain * shape + 0.01 * rng.standard_normal((BEATS, 1)) + 0.015 * rng.standard_normal((BEATS, T))


beats, labels, patient = [], [], []
for pid in range(N_PAT):
    sick = (rng.random(BEATS) < 0.1).astype(float)
    beats.append(record(sick))
    labels += sick.tolist()
    patient += [pid] * BEATS
X = torch.tensor(np.concatenate(beats), dtype=torch.float32)
Y = torch.tensor(labels, dtype=torch.float32)
PID = torch.tensor(patient)

shuffled = torch.randperm(N_PAT)
i_tr, i_va, i_te = (torch.isin(PID, p).nonzero()[:, 0] for p in shuffled.split([160, 40, 60]))
mean, std = X[i_tr].mean(0), X[i_tr].std(0)
X = (X - mean) / std
print(f"{len(i_tr)} train / {len(i_va)} val / {len(i_te)} test beats")

net = nn.Sequential(nn.Linear(T, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.AdamW(net.parameters(), lr=4e-4, weight_decay=1e-2)
n_pos = Y[i_tr].sum()
n_neg = len(i_tr) - n_pos
bce = nn.BCEWithLogitsLoss(pos_weight=n_pos / n_neg)


@torch.no_grad()
def evaluate(idx):
    net.eval()
    logit = net(X[idx])[:, 0]
    hit, true = logit > 0, Y[idx] == 1
    sens, spec = (hit & true).sum() / true.sum(), (~hit & ~true).sum() / (~true).sum()
    return bce(logit, Y[idx]).item(), sens.item(), spec.item()


best_loss, best_state = float("inf"), None
for epoch in range(8):
    net.train()
    total = 0.0
    for b in i_tr[torch.randperm(len(i_tr))].split(32):
        loss = bce(net(X[b])[:, 0], Y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(b)
    vl, sens, spec = evaluate(i_va)
    if vl < best_loss:
        best_loss, best_state = vl, {k: v.clone() for k, v in net.state_dict().items()}
    print(f"epoch {epoch:2d} train {total / len(i_tr):.4f} val {vl:.4f} sens {sens:.3f} spec {spec:.3f}")

net.load_state_dict(best_state)
print("test loss %.4f  sensitivity %.3f  specificity %.3f" % evaluate(i_te))
