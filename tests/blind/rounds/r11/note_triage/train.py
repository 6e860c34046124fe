# ICU transfer within 24 h from the text of the progress note
import json, sys, collections
from pathlib import Path
import torch, torch.nn as nn, torch.nn.functional as F

base = Path(sys.argv[1])
torch.manual_seed(8)


def read(part):
    rows = [json.loads(s) for s in (base / f"{part}.jsonl").read_text().splitlines()]
    return [r["text"].split() for r in rows], torch.tensor([r["icu_24h"] for r in rows])


texts, y = read("train")
dev_texts, dev_y = read("dev")
test_texts, test_y = read("test")
counts = collections.Counter(w for t in texts for w in t)
vocab = {w: i + 1 for i, (w, c) in enumerate(counts.most_common()) if c >= 3}
weights = json.loads((base / "class_weights.json").read_text())
class_weight = torch.tensor([weights[str(k)] for k in range(2)])


def bags(batch):
    ids = [[vocab.get(w, 0) for w in t] for t in batch]
    offsets = torch.tensor([0] + [len(i) for i in ids[:-1]]).cumsum(0)
    return torch.tensor([i for t in ids for i in t]), offsets


class NoteNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(len(vocab) + 1, 32, mode="mean")
        self.norm = nn.LayerNorm(32)
        self.mlp = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))

    def forward(self, ids, offsets):
        return self.mlp(self.norm(self.bag(ids, offsets)))


def balanced_accuracy(net, t, lab):
    net.eval()
    with torch.no_grad():
        pred = net(*bags(t)).argmax(1)
    return sum((pred[lab == c] == c).float().mean().item() for c in (0, 1)) / 2


net = NoteNet()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
for epoch in range(7):
    net.train()
    losses = []
    order = torch.randperm(len(texts)).tolist()
    for i in range(0, len(order), 32):
        rows = order[i:i + 32]
        logits = net(*bags([texts[r] for r in rows]))
        loss = F.cross_entropy(logits, y[rows], weight=class_weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print("epoch", epoch, "loss %.4f" % (sum(losses) / len(losses)),
          "dev balanced acc %.4f" % balanced_accuracy(net, dev_texts, dev_y))
print("test balanced acc %.4f" % balanced_accuracy(net, test_texts, test_y))
