"""A character model over a stream: a GRU whose hidden state is carried, and detached, from window to window."""

import torch
from torch import nn

torch.manual_seed(3)
text = ("the quick brown fox jumps over the lazy dog. " * 60)[:2400]
vocabulary = sorted(set(text))
ids = torch.tensor([vocabulary.index(c) for c in text])
streams = ids[: 8 * 300].view(8, 300)


class CharModel(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embedding = nn.Embedding(size, 16)
        self.rnn = nn.GRU(16, 48, batch_first=True)
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, size)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.embedding(x), hidden)
        return self.head(self.norm(out)), hidden


model = CharModel(len(vocabulary))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
window = 20
history = []
for epoch in range(8):
    hidden = torch.zeros(1, 8, 48)
    for start in range(0, 300 - window - 1, window):
        x = streams[:, start : start + window]
        y = streams[:, start + 1 : start + window + 1]
        hidden = hidden.detach()
        optimizer.zero_grad()
        logits, hidden = model(x, hidden)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        history.append(loss.item())
