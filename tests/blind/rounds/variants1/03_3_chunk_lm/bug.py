import random
import torch
from torch import nn
from torch.nn import functional as F

random.seed(4)
torch.manual_seed(4)
WORDS = "the red fox sees a blue bird and the bird sings to a sleepy green frog".split()
VOCAB = {c: i for i, c in enumerate(" abcdefghijklmnopqrstuvwxyz")}


def text(n_words):
    out, prev = [], random.randrange(len(WORDS))
    for _ in range(n_words):
        prev = (prev + random.choice([1, 1, 1, 2])) % len(WORDS)
        out.append(WORDS[prev])
    return torch.tensor([VOCAB[c] for c in " ".join(out)])


class CharLM(nn.Module):
    def __init__(self, v=27, d=32, h=64):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.gru = nn.GRU(d, h, batch_first=True)
        self.out = nn.Linear(h, v)

    def forward(self, x, state=None):
        h, state = self.gru(self.emb(x), state)
        return self.out(h), state


def rows(ids, n=16):
    k = len(ids) // n
    return ids[:k * n].view(n, k)


def chunk_losses(model, block, width=16):
    """Loss of each chunk of a block of rows, with the state carried over."""
    state, found = None, []
    for s in range(0, block.size(1) - 1, width):
        part = block[:, s:s + width + 1]
        if part.size(1) < 2:
            break
        logits, state = model(part[:, :-1], state)
        loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
        found.append(loss.item())
    return torch.tensor(found, requires_grad=True)


train, valid = rows(text(6000)), rows(text(800))
model = CharLM()
opt = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
for epoch in range(4):
    model.train()
    total = 0.0
    blocks = train.split(48, dim=1)
    for block in blocks:
        loss = chunk_losses(model, block).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        held = chunk_losses(model, valid).mean().item()
    print(f"epoch {epoch} train {total / len(blocks):.3f} held-out {held:.3f} nats per character")
