"""Sentence polarity with a small gated convolution."""
import os
import random
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
DATA = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity."
LEN, DIM, EPOCHS = 32, 24, 4
random.seed(0)
torch.manual_seed(0)
with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as f:
    vocab = {w.rstrip("\n"): i for i, w in enumerate(f)}
PAD, UNK = vocab["<pad>"], vocab["<unk>"]

rows = []
for label, ext in ((1, "pos"), (0, "neg")):
    with open(DATA + ext, encoding="latin-1") as f:
        rows += [(label, line.split()) for line in f if line.strip()]
random.shuffle(rows)


def tensors(part):
    ids = torch.full((len(part), LEN), PAD)
    for r, (_, words) in enumerate(part):
        w = [vocab.get(t, UNK) for t in words[:LEN]]
        ids[r, :len(w)] = torch.tensor(w)
    return ids, torch.tensor([p[0] for p in part])


x_tr, y_tr = tensors(rows[:8000])
x_va, y_va = tensors(rows[8000:9300])
x_te, y_te = tensors(rows[9300:])


class GatedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(vocab), DIM, padding_idx=PAD)
        self.conv = nn.Conv1d(DIM, 2 * DIM, 3, padding=1)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(DIM, 2)

    def forward(self, ids):
        keep = (ids != PAD).float()[:, None]
        h = self.emb(ids).transpose(1, 2)
        h = (F.glu(self.conv(h), dim=1) + h) * keep
        pooled = h.sum(2) / keep.sum(2).clamp(min=1)
        return self.out(self.drop(pooled))


model = GatedConv()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)


@torch.no_grad()
def evaluate(x, y):
    model.eval()
    out = torch.cat([model(c) for c in x.split(512)])
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


best, state = float("inf"), None
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for b in torch.randperm(len(x_tr)).split(64):
        loss = F.cross_entropy(model(x_tr[b]), y_tr[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(b)
    vl, va = evaluate(x_va, y_va)
    if vl < best:
        best, state = vl, {k: v.clone() for k, v in model.state_dict().items()}
    print(f"epoch {epoch} train {total / len(x_tr):.4f} val {vl:.4f} acc {va:.4f}")
model.load_state_dict(state)
print("test loss %.4f acc %.4f" % evaluate(x_te, y_te))
