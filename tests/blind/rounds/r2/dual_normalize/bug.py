import random, os

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 4
random.seed(SEED)
torch.manual_seed(SEED)
PATH = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity.pos"


def split_sentence(words, rng):
    picks = set(rng.sample(range(len(words)), len(words) // 2))
    query = [w for i, w in enumerate(words) if i in picks]
    return query, words


def load(n_train=3000, n_val=400):
    lines = [l.split() for l in open(PATH, encoding="latin-1")]
    lines = [l for l in lines if len(l) >= 12]
    random.shuffle(lines)
    train, val = lines[:n_train], lines[n_train:n_train + n_val]
    counts = {}
    for l in train:
        for w in l:
            counts[w] = counts.get(w, 0) + 1
    kept = sorted(w for w, c in counts.items() if 2 <= c < 600)
    return train, val, {w: i + 1 for i, w in enumerate(kept)}


class Tower(nn.Module):
    def __init__(self, vocab_size, dim=64):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab_size, dim, mode="mean", padding_idx=0)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, ids):
        z = self.bag(ids)
        z = z + self.proj(z)
        return F.normalize(z, dim=0)


def pack(token_lists, vocab, width=30):
    out = torch.zeros(len(token_lists), width, dtype=torch.long)
    for i, words in enumerate(token_lists):
        ids = [vocab[w] for w in words if w in vocab][:width]
        out[i, :len(ids)] = torch.tensor(ids, dtype=torch.long)
    return out


def recall(query_tower, doc_tower, q, d, k=1):
    query_tower.eval(), doc_tower.eval()
    with torch.no_grad():
        docs = doc_tower(d)
        scores = torch.cat([query_tower(chunk) @ docs.t() for chunk in q.split(40)])
    top = scores.topk(k, dim=1).indices
    return (top == torch.arange(len(q))[:, None]).any(1).float().mean().item()


def main():
    train, val, vocab = load()
    rng = random.Random(SEED)
    qv, dv = (pack(t, vocab) for t in zip(*[split_sentence(l, rng) for l in val]))
    query_tower, doc_tower = Tower(len(vocab) + 1), Tower(len(vocab) + 1)
    params = list(query_tower.parameters()) + list(doc_tower.parameters())
    opt = torch.optim.Adam(params, lr=1e-2)
    temperature = 0.07
    for epoch in range(8):
        query_tower.train(), doc_tower.train()
        qt, dt = (pack(t, vocab) for t in zip(*[split_sentence(l, rng) for l in train]))
        total = 0.0
        batches = torch.randperm(len(qt)).split(100)
        for idx in batches:
            scores = query_tower(qt[idx]) @ doc_tower(dt[idx]).t() / temperature
            target = torch.arange(len(idx))
            loss = 0.5 * (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(batches):.3f} recall@1 {recall(query_tower, doc_tower, qv, dv):.3f}")


main()
