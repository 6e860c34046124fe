import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import torch.nn.functional as F

random.seed(1)
torch.manual_seed(1)
WORDS = ["salt", "river", "stone", "apple", "cloud", "tiger", "green", "music"]


def story(words):
    return " ".join(random.choice(WORDS) for _ in range(words))


ALPHABET = sorted(set("".join(WORDS) + " "))
INDEX = {c: i for i, c in enumerate(ALPHABET)}


class Windows(Dataset):
    def __init__(self, text, span):
        self.codes = torch.tensor([INDEX[c] for c in text])
        self.span = span

    def __len__(self):
        return (len(self.codes) - 1) // self.span

    def __getitem__(self, i):
        piece = self.codes[i * self.span:(i + 1) * self.span + 1]
        return piece[:-1], piece[1:]


class Writer(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), 16)
        self.rnn = nn.GRU(16, dim, batch_first=True)
        self.out = nn.Linear(dim, len(ALPHABET))

    def forward(self, x, state=None):
        h, state = self.rnn(self.embed(x), state)
        return self.out(h), state


def sequence_loss(logits, target):
    logits, target = logits[:, :-1].contiguous(), target[:, 1:].contiguous()
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target.view(-1))


@torch.no_grad()
def write(model, start, n):
    model.eval()
    text, state, x = start, None, torch.tensor([[INDEX[c] for c in start]])
    for _ in range(n):
        logits, state = model(x, state)
        x = logits[:, -1:].argmax(-1)
        text += ALPHABET[x.item()]
    return text


train = DataLoader(Windows(story(2500), 24), batch_size=32, shuffle=True)
val = DataLoader(Windows(story(400), 24), batch_size=64)
model = Writer()
opt = torch.optim.Adam(model.parameters(), lr=6e-3)
for epoch in range(8):
    model.train()
    for x, y in train:
        loss = sequence_loss(model(x)[0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        held = sum(sequence_loss(model(x)[0], y).item() for x, y in val) / len(val)
    print(f"epoch {epoch} train {loss.item():.3f} val {held:.3f} | {write(model, 'st', 24)}")
