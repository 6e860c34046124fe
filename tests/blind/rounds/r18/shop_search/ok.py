"""Pairwise learning to rank (RankNet) for product search: graded relevance 0..3, evaluated with NDCG@5 per query."""
import numpy as np
import torch
from torch import nn

DOCS, PER_STEP = 12, 16


def make_log(n_queries, seed):
    r = np.random.default_rng(seed)
    traffic = r.normal(0, 1.4, n_queries)[:, None]                # log of daily searches of the query
    quality = r.normal(0, 1, (n_queries, DOCS))
    text_match = 0.7 * quality + r.normal(0, 0.8, (n_queries, DOCS))
    price_gap = r.normal(0, 1, (n_queries, DOCS))
    rating = 4.2 + 0.5 * np.tanh(0.6 * quality + r.normal(0, 1, (n_queries, DOCS)))
    latent = quality - 0.35 * price_gap ** 2 + 0.3 * r.normal(0, 1, (n_queries, DOCS)) - 1.6 * traffic
    grade = np.digitize(latent, [-2.0, -0.1, 1.7])
    log_clicks = 1.5 * traffic + 0.9 * (quality - 0.35 * price_gap ** 2) + r.normal(0, 0.5, (n_queries, DOCS)) + 2
    log_views = 1.2 * traffic + 0.3 * r.normal(0, 1, (n_queries, DOCS)) + 4
    f = np.stack([text_match, price_gap, rating, log_clicks, log_views], 2).astype(np.float32)
    return f, grade


def ndcg(scores, grade, k=5):
    gain = 2.0 ** grade - 1
    disc = 1 / np.log2(np.arange(2, k + 2))
    got = np.take_along_axis(gain, np.argsort(-scores, 1)[:, :k], 1) @ disc
    ideal = -np.sort(-gain, 1)[:, :k] @ disc
    return float((got[ideal > 0] / ideal[ideal > 0]).mean())


def ranknet_loss(s, g, qid):
    diff = s[:, None] - s[None, :]
    pairs = (g[:, None] > g[None, :]) & (qid[:, None] == qid[None, :])
    return nn.functional.softplus(-diff[pairs]).mean()


def train(f, grade, steps=700, lr=2e-3):
    net = nn.Sequential(nn.Linear(f.shape[2], 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    for step in range(steps):
        q = torch.randint(0, len(f), (PER_STEP,))
        x, g = f[q].flatten(0, 1), grade[q].flatten()
        qid = torch.arange(PER_STEP).repeat_interleave(DOCS)
        loss = ranknet_loss(net(x).squeeze(1), g, qid)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(f"step {step} pair loss {loss.item():.4f}")
    return net


if __name__ == "__main__":
    torch.manual_seed(6)
    ftr, gtr = make_log(1500, 1)
    fte, gte = make_log(500, 2)
    mu, sd = ftr.mean((0, 1)), ftr.std((0, 1))
    net = train(torch.from_numpy((ftr - mu) / sd), torch.from_numpy(gtr))
    with torch.no_grad():
        s = net(torch.from_numpy((fte - mu) / sd)).squeeze(2).numpy()
    print(f"NDCG@5 {ndcg(s, gte):.4f}  (by text match alone {ndcg(fte[:, :, 0], gte):.4f}, random {ndcg(np.random.default_rng(0).random(gte.shape), gte):.4f})")
