"""Siamese encoder for duplicate-question detection with a cosine margin loss."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 3
STEPS, BATCH, MARGIN = 400, 64, 0.3
TOPICS = 40
WORDS_PER_TOPIC = 12
COMMON = 60
LENGTH = 10


def make_lexicon(rng):
    base = TOPICS * WORDS_PER_TOPIC
    words = list(range(1, base + 1))
    rng.shuffle(words)
    topics = [words[i * WORDS_PER_TOPIC:(i + 1) * WORDS_PER_TOPIC] for i in range(TOPICS)]
    common = list(range(base + 1, base + COMMON + 1))
    return topics, common


def question(rng, topic, common):
    k = rng.randint(3, 5)
    tokens = rng.sample(topic, k) + rng.choices(common, k=LENGTH - k)
    rng.shuffle(tokens)
    return tokens


def make_pairs(rng, n, topics, common):
    rows_a, rows_b, same = [], [], []
    for _ in range(n):
        duplicate = rng.random() < 0.5
        t = rng.randrange(TOPICS)
        u = t if duplicate else rng.choice([x for x in range(TOPICS) if x != t])
        rows_a.append(question(rng, topics[t], common))
        rows_b.append(question(rng, topics[u], common))
        same.append(int(duplicate))
    return torch.tensor(rows_a), torch.tensor(rows_b), torch.tensor(same)


class Encoder(nn.Module):
    def __init__(self, vocab, dim=48, out=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.proj = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, out))

    def forward(self, tokens):
        return self.proj(self.emb(tokens).mean(1))


def auc(score, label):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label == 1
    n_pos, n_neg = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


@torch.no_grad()
def validate(model, a, b, same):
    model.eval()
    score = F.cosine_similarity(model(a), model(b))
    pos, neg = score[same == 1].mean().item(), score[same == 0].mean().item()
    return auc(score.double(), same), pos, neg


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    topics, common = make_lexicon(rng)
    train = make_pairs(rng, 5000, topics, common)
    valid = make_pairs(rng, 1000, topics, common)
    model = Encoder(TOPICS * WORDS_PER_TOPIC + COMMON + 1)
    criterion = nn.CosineEmbeddingLoss(margin=MARGIN)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    a, b, same = train
    target = same.float()
    step, running = 0, 0.0
    while step < STEPS:
        for idx in torch.randperm(len(same)).split(BATCH):
            model.train()
            loss = criterion(model(a[idx]), model(b[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
            step += 1
            if step % 50 == 0:
                area, pos, neg = validate(model, *valid)
                print(f"step {step:4d} loss {running / 50:.4f} valid auc {area:.3f} cos(dup) {pos:.3f} cos(other) {neg:.3f}")
                running = 0.0
            if step == STEPS:
                break


if __name__ == "__main__":
    main()
