import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(41)
VOCAB, WORDS, TOPICS = 300, 8, 40
topic_words = torch.randint(1, VOCAB, (TOPICS, 12))


def texts(topics):
    pick = torch.randint(0, 12, (len(topics), WORDS))
    words = topic_words[topics].gather(1, pick)
    noise = torch.randint(1, VOCAB, words.shape)
    return torch.where(torch.rand(words.shape) < 0.15, noise, words)


class Tower(nn.Module):
    def __init__(self, dim=32, out=24):
        super().__init__()
        self.words = nn.EmbeddingBag(VOCAB, dim, mode="mean")
        self.body = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))
        self.project = nn.Linear(dim, out)

    @torch.no_grad()
    def encode(self, tokens):
        h = self.words(tokens)
        return h + self.body(h)

    def forward(self, tokens):
        return F.normalize(self.project(self.encode(tokens)), dim=-1)


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.page = Tower(), Tower()
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def similarity(self, q, p):
        return self.log_scale.exp() * self.query(q) @ self.page(p).T


def batch(n):
    topics = torch.randperm(TOPICS)[:n]
    return texts(topics), texts(topics)


@torch.no_grad()
def recall(model, repeats=10):
    model.eval()
    hit = 0.0
    for q, p in held_out[:repeats]:
        hit += (model.similarity(q, p).argmax(1) == torch.arange(len(q))).float().mean().item()
    model.train()
    return hit / repeats


held_out = [batch(TOPICS) for _ in range(10)]
model = Retrieval()
opt = torch.optim.AdamW(model.parameters(), lr=8e-3)
for step in range(1, 301):
    q, p = batch(32)
    s = model.similarity(q, p)
    target = torch.arange(len(s))
    loss = 0.5 * (F.cross_entropy(s, target) + F.cross_entropy(s.T, target))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step {step} loss {loss.item():.3f} recall@1 {recall(model):.3f}")
