import os
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1337)
path = os.path.join(os.environ["TRUELOOP_DATA"], "names", "names.txt")
words = [w.strip() for w in open(path) if 2 < len(w.strip()) < 12]
g = torch.Generator().manual_seed(0)
words = [words[i] for i in torch.randperm(len(words), generator=g).tolist()][:6500]
stoi = {c: i + 1 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}
V, T, C = 27, 13, 32


def encode(ws):
    x = torch.zeros(len(ws), T, dtype=torch.long)
    y = torch.full((len(ws), T), -1)
    for r, w in enumerate(ws):
        ids = torch.tensor([stoi[c] for c in w])
        x[r, 1:len(ids) + 1] = ids
        y[r, :len(ids)] = ids
        y[r, len(ids)] = 0
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))
        self.register_buffer("hide", torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1))

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).chunk(3, -1)
        att = q @ k.transpose(1, 2) * C ** -0.5
        n = x.shape[1]
        att = att.masked_fill(self.hide[:n, :n], float("-inf")).softmax(-1)
        x = x + self.proj(att @ v)
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(Block(), Block())
        self.ln, self.head = nn.LayerNorm(C), nn.Linear(C, V)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        return self.head(self.ln(self.blocks(h)))


@torch.no_grad()
def prefix_nll(model, x, y):
    """Score every character from the text before it alone, as the sampler sees it."""
    model.eval()
    tot, cnt = 0.0, 0
    for t in range(T):
        keep = y[:, t] >= 0
        if keep.any():
            logits = model(x[keep, :t + 1])[:, -1]
            tot += F.cross_entropy(logits, y[keep, t], reduction="sum").item()
            cnt += int(keep.sum())
    return tot / cnt


xtr, ytr = encode(words[:6000])
xte, yte = encode(words[6000:])
model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
for epoch in range(5):
    model.train()
    losses = []
    for idx in torch.randperm(len(xtr)).split(100):
        loss = F.cross_entropy(model(xtr[idx]).reshape(-1, V), ytr[idx].reshape(-1), ignore_index=-1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch} train loss {sum(losses) / len(losses):.4f}")
print("final sampling-time nll", prefix_nll(model, xte, yte))
