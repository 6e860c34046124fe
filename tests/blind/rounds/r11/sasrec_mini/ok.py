"""Next-track model over listening sessions (one attention block, tied item embeddings)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = dict(items=200, length=16, dim=48, heads=2, batch=64, epochs=8, lr=3e-3, seed=5)


def sessions(n, seed):
    rng = np.random.default_rng(seed)
    after = np.random.default_rng(1).permutation(cfg["items"])     # people alternate between two threads
    out = np.empty((n, cfg["length"] + 1), dtype=np.int64)
    out[:, :2] = rng.integers(0, cfg["items"], (n, 2))
    for t in range(2, cfg["length"] + 1):
        step = after[out[:, t - 2]]
        jump = rng.random(n) < 0.15
        out[:, t] = np.where(jump, rng.integers(0, cfg["items"], n), step)
    return torch.from_numpy(out)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class NextTrack(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(cfg["items"], cfg["dim"])
        self.pos = nn.Parameter(torch.zeros(cfg["length"], cfg["dim"]))
        self.block = Block(cfg["dim"], cfg["heads"])
        self.norm = nn.LayerNorm(cfg["dim"])
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, seq):
        h = self.norm(self.block(self.item(seq) + self.pos[: seq.shape[1]]))
        return h @ self.item.weight.T


@torch.no_grad()
def hit10(model, data):
    """The held-out track is the one after the history; only the history is given."""
    model.eval()
    logits = model(data[:, :-1])[:, -1]
    top = logits.topk(10, dim=-1).indices
    return (top == data[:, -1:]).any(-1).float().mean().item()


def fit():
    torch.manual_seed(cfg["seed"])
    train, val, test = sessions(2500, 10), sessions(400, 11), sessions(800, 12)
    model = NextTrack()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    for epoch in range(cfg["epochs"]):
        model.train()
        loss_sum = 0.0
        for rows in torch.randperm(len(train)).split(cfg["batch"]):
            seq = train[rows]
            logits = model(seq[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            loss_sum += loss.item() * len(rows)
        print("epoch %d  ce %.3f  val hit@10 %.3f" % (epoch, loss_sum / len(train), hit10(model, val)))
    print("test hit@10 %.4f" % hit10(model, test))


if __name__ == "__main__":
    fit()
