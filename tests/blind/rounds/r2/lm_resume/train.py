import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
torch.manual_seed(50)
CONTEXT, BATCH, STEPS, LR = 6, 128, 400, 3e-3

text = (folder / "corpus.txt").read_text()
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
cut = int(0.9 * len(ids))
splits = {"train": ids[:cut], "val": ids[cut:]}


class BigramMLP(nn.Module):
    def __init__(self, vocab, context=CONTEXT, dim=12, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.hidden = nn.Linear(context * dim, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.emb(x).flatten(1))))


def windows(stream, starts):
    x = stream[starts[:, None] + torch.arange(CONTEXT)]
    return x, stream[starts + CONTEXT]


@torch.no_grad()
def validate(model):
    model.eval()
    stream = splits["val"]
    x, y = windows(stream, torch.arange(len(stream) - CONTEXT))
    return F.cross_entropy(model(x), y).item()


model = BigramMLP(len(chars))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
checkpoint = folder / "last.pt"
first = 0
if checkpoint.exists():
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
    print(f"resumed at step {first}")
stream = splits["train"]
for step in range(first + 1, first + STEPS + 1):
    model.train()
    x, y = windows(stream, torch.randint(len(stream) - CONTEXT, (BATCH,)))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step - first) % 100 == 0:
        print(f"step {step} train {loss.item():.3f} val {validate(model):.3f}")
