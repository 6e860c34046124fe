"""A tagger whose model is called with the whole batch, targets included; most tags are 'outside'."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(0)
WORDS, TAGS = 400, 5


def sentence(generator):
    length = int(torch.randint(8, 20, (1,), generator=generator))
    words = torch.randint(20, WORDS, (length,), generator=generator)
    tags = torch.zeros(length, dtype=torch.long)
    for kind in range(1, TAGS):  # a marker announces the entity behind it
        if torch.rand(1, generator=generator) < 0.5:
            at = int(torch.randint(0, length - 1, (1,), generator=generator))
            words[at], tags[at], tags[at + 1] = kind, 0, kind
    for at in range(length - 1):
        tags[at + 1] = words[at] if words[at] < TAGS else 0
    return words, tags


def collate(rows):
    words, tags = zip(*rows, strict=True)
    return {
        "words": nn.utils.rnn.pad_sequence(words, batch_first=True),
        "tags": nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-1),
    }


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16, padding_idx=0)
        self.read = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.decide = nn.Linear(48, TAGS)

    def forward(self, batch):
        return self.decide(self.read(self.words(batch["words"]))[0])


generator = torch.Generator().manual_seed(1)
data = [sentence(generator) for _ in range(1200)]
train = DataLoader(data[:1000], batch_size=40, shuffle=True, collate_fn=collate)
held_out = DataLoader(data[1000:], batch_size=50, collate_fn=collate)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(4):
    model.train()
    for batch in train:
        loss = F.cross_entropy(model(batch).flatten(0, 1), batch["tags"].flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    right = found = 0
    with torch.no_grad():
        for batch in held_out:
            wanted = batch["tags"] > 0
            right += int((model(batch).argmax(-1) == batch["tags"])[wanted].sum())
            found += int(wanted.sum())
    print(f"loss {loss.item():.3f}  right {right / found:.3f}")
