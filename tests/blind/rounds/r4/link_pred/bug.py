import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, N, DIM, HID, EPOCHS = 7, 400, 16, 32, 150
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


def interaction_network(n):
    pos = rng.random((n, 2))
    dist = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    p = 0.9 * np.exp(-(dist / 0.06) ** 2) + 0.002
    i, j = np.triu_indices(n, 1)
    keep = rng.random(len(i)) < p[i, j]
    feats = np.concatenate([pos + 0.25 * rng.standard_normal((n, 2)),
                            rng.standard_normal((n, DIM - 2))], 1)
    return feats.astype(np.float32), np.stack([i[keep], j[keep]], 1)


def norm_adj(edges, n):
    a = torch.zeros(n, n)
    a[edges[:, 0], edges[:, 1]] = 1
    a[edges[:, 1], edges[:, 0]] = 1
    a += torch.eye(n)
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


def sample_negatives(k, forbidden, n):
    out = []
    while len(out) < k:
        u, v = sorted(rng.integers(0, n, 2).tolist())
        if u != v and (u, v) not in forbidden:
            out.append((u, v))
    return torch.tensor(out)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, HID)
        self.w2 = nn.Linear(HID, HID)

    def forward(self, x, a):
        return a @ self.w2(F.relu(a @ self.w1(x)))


def score(z, e):
    return (z[e[:, 0]] * z[e[:, 1]]).sum(1)


def auc(pos, neg):
    return (pos[:, None] > neg[None, :]).float().mean().item()


feats, edges = interaction_network(N)
x = torch.from_numpy(feats)
edges = torch.from_numpy(edges)[torch.from_numpy(rng.permutation(len(edges)))]
n_test = int(0.3 * len(edges))
test_pos, train_pos = edges[:n_test], edges[n_test:]
known = set(map(tuple, edges.tolist()))
test_neg = sample_negatives(n_test, known, N)
train_known = set(map(tuple, train_pos.tolist()))
adj = norm_adj(edges, N)
print(f"{N} nodes, {len(edges)} edges, {n_test} held out")

encoder = Encoder()
opt = torch.optim.Adam(encoder.parameters(), lr=5e-3, weight_decay=1e-4)
for epoch in range(EPOCHS):
    encoder.train()
    z = encoder(x, adj)
    neg = sample_negatives(len(train_pos), train_known, N)
    logits = torch.cat([score(z, train_pos), score(z, neg)])
    target = torch.cat([torch.ones(len(train_pos)), torch.zeros(len(neg))])
    loss = F.binary_cross_entropy_with_logits(logits, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 25 == 0:
        print(f"epoch {epoch:3d} loss {loss.item():.4f}")

encoder.eval()
with torch.no_grad():
    z = encoder(x, adj)
    print(f"test AUC {auc(score(z, test_pos), score(z, test_neg)):.4f}")
