"""Dual encoder for FAQ retrieval, trained with in-batch negatives."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, N_FACTS, VOCAB, DIM = 4, 2600, 240, 48
EPOCHS, BATCH, TEMP = 8, 64, 0.07


def build_pairs(rng):
    """A question names some concepts, its answer speaks of them in other words."""
    answer_word = list(range(VOCAB))
    rng.shuffle(answer_word)
    pairs = []
    for _ in range(N_FACTS):
        concepts = rng.sample(range(VOCAB), 6)
        q = rng.sample(concepts, 5) + [rng.randrange(VOCAB)]
        a = [answer_word[c] for c in rng.sample(concepts, 5)] + [rng.randrange(VOCAB)]
        rng.shuffle(q)
        rng.shuffle(a)
        pairs.append((q, a))
    return pairs


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(VOCAB, DIM, mode="mean")
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, tokens):
        return F.normalize(self.proj(self.emb(tokens)), dim=-1)


class Retriever(nn.Module):
    def __init__(self):
        super().__init__()
        self.question, self.answer = Tower(), Tower()
        self.index = None

    def loss(self, q, a):
        sim = self.question(q) @ self.answer(a).T / TEMP
        target = torch.arange(len(q))
        return 0.5 * (F.cross_entropy(sim, target) + F.cross_entropy(sim.T, target))

    def build_index(self, answers):
        self.index = self.answer(answers)

    @torch.no_grad()
    def search(self, questions, answers, k=5):
        self.build_index(answers)
        return (self.question(questions) @ self.index.T).topk(k, dim=1).indices


def evaluate(model, q, a):
    model.eval()
    top = model.search(q, a)
    gold = torch.arange(len(q))[:, None]
    return (top[:, :1] == gold).any(1).float().mean().item(), (top == gold).any(1).float().mean().item()


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    pairs = build_pairs(rng)
    train, val = pairs[:2400], pairs[2400:]
    qt, at = torch.tensor([p[0] for p in train]), torch.tensor([p[1] for p in train])
    qv, av = torch.tensor([p[0] for p in val]), torch.tensor([p[1] for p in val])

    model = Retriever()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        perm = torch.randperm(len(qt))
        total, steps = 0.0, 0
        for i in range(0, len(perm) - BATCH + 1, BATCH):
            idx = perm[i:i + BATCH]
            loss = model.loss(qt[idx], at[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, steps = total + loss.item(), steps + 1
        hit1, hit5 = evaluate(model, qv, av)
        print(f"epoch {epoch:2d} loss {total / steps:.4f} hit@1 {hit1:.3f} hit@5 {hit5:.3f}")


if __name__ == "__main__":
    main()
