import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, DIM = 9, 36, 40
random.seed(SEED)
torch.manual_seed(SEED)


class Encoder(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab_size, DIM, padding_idx=0)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, ids):
        return torch.tanh(self.mix(self.table(ids)))


class Classifier(nn.Module):
    def __init__(self, vocab_size, n_out=2, p=0.3):
        super().__init__()
        self.encoder = Encoder(vocab_size)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(DIM, n_out)

    def forward(self, ids):
        return self.head(self.drop(self.encoder(ids)))


def read_all():
    rows = []
    for ext, y in (("pos", 1), ("neg", 0)):
        for line in open(os.environ["TRUELOOP_DATA"] + f"/movie-reviews/rt-polarity.{ext}", encoding="latin-1"):
            rows.append((line.split(), y))
    random.shuffle(rows)
    return rows


def fit(model, x, y, epochs, lr, batch):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        yield epoch, total / len(x)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


rows = read_all()[:6500]
counts = {}
for words, _ in rows[:5000]:
    for w in words:
        counts[w] = counts.get(w, 0) + 1
vocab = {w: i + 2 for i, w in enumerate(sorted(w for w in counts if counts[w] > 1))}
ids = torch.zeros(len(rows), WIDTH, dtype=torch.long)
for i, (words, _) in enumerate(rows):
    seq = [vocab.get(w, 1) for w in words[:WIDTH]]
    ids[i, :len(seq)] = torch.tensor(seq)
labels = torch.tensor([y for _, y in rows])
val_x, val_y = ids[5800:], labels[5800:]

path = os.path.join(tempfile.mkdtemp(), "encoder.pt")
source = Classifier(len(vocab) + 2)
for epoch, loss in fit(source, ids[:5000], labels[:5000], epochs=4, lr=4e-3, batch=50):
    print(f"pretrain epoch {epoch} loss {loss:.3f}")
print(f"pretrained model on held-out reviews: {accuracy(source, val_x, val_y):.3f}")
torch.save({k: v for k, v in source.state_dict().items() if k.startswith("encoder.")}, path)

target = Classifier(len(vocab) + 2, p=0.1)
target.encoder.load_state_dict({k[len("encoder."):]: v for k, v in torch.load(path).items()})
target.encoder.requires_grad_(False)
for epoch, loss in fit(target, ids[5000:5800], labels[5000:5800], epochs=10, lr=1e-2, batch=40):
    print(f"transfer epoch {epoch} loss {loss:.3f}")
print(f"few-shot transfer accuracy {accuracy(target, val_x, val_y):.3f}")
