"""Two-tower retrieval for a web shop: search queries against catalogue items."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
gen = np.random.default_rng(5)

VOCAB_Q, VOCAB_P = 160, 280
N_PAIRS, N_VAL = 5000, 500
DIM = 32
TEMPERATURE = 0.07
STEPS, BATCH = 600, 100


def simulate_pairs(n):
    """Each item has a few attributes; its title and its queries use words for them."""
    attr = gen.integers(0, 20, size=(n, 5))                       # brand, colour, type, size ...
    title = attr * 2 + gen.integers(0, 2, attr.shape) + np.arange(5) * 45
    query_words = attr + np.arange(5) * 25
    noise_t = gen.integers(230, VOCAB_P, size=(n, 3))
    noise_q = gen.integers(130, VOCAB_Q, size=(n, 1))
    drop = gen.random(attr.shape) < 0.12                          # users leave words out
    query_words = np.where(drop, gen.integers(130, VOCAB_Q, attr.shape), query_words)
    q = np.concatenate([query_words, noise_q], 1)
    p = np.concatenate([title, noise_t], 1)
    return torch.from_numpy(q), torch.from_numpy(p)


class Tower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.words = nn.EmbeddingBag(vocab, 48, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.words(ids)), dim=-1)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_tower = Tower(VOCAB_Q, DIM)
        self.item_tower = Tower(VOCAB_P, DIM)

    def loss(self, q_ids, p_ids):
        q, p = self.query_tower(q_ids), self.item_tower(p_ids)
        logits = q @ p.T / TEMPERATURE
        target = torch.arange(len(q))
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def recall_at(model, q_ids, p_ids, ks=(1, 10)):
    model.eval()
    with torch.no_grad():
        scores = model.query_tower(q_ids) @ model.item_tower(p_ids).T
    own = scores.diagonal().unsqueeze(1)
    rank = (scores > own).sum(1)
    return [(rank < k).float().mean().item() for k in ks]


queries, items = simulate_pairs(N_PAIRS + N_VAL)
q_train, p_train = queries[:N_PAIRS], items[:N_PAIRS]
q_val, p_val = queries[N_PAIRS:], items[N_PAIRS:]

model = Matcher()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=STEPS)

window = []
perm = torch.randperm(N_PAIRS)
cursor = 0
for step in range(1, STEPS + 1):
    if cursor + BATCH > N_PAIRS:
        perm, cursor = torch.randperm(N_PAIRS), 0
    idx = perm[cursor:cursor + BATCH]
    cursor += BATCH

    model.train()
    loss = model.loss(q_train[idx], p_train[idx])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    scheduler.step()
    window.append(loss.item())
    if step % 100 == 0:
        r1, r10 = recall_at(model, q_val, p_val)
        print(f"step {step:4d}  loss {np.mean(window):.4f}  recall@1 {r1:.3f}  recall@10 {r10:.3f}")
        window.clear()

r1, r10 = recall_at(model, q_val, p_val)
print(f"final recall@1 {r1:.4f}")
