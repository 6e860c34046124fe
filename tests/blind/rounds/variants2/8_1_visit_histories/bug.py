import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
import torch.nn.functional as F

torch.manual_seed(29)
FEATURES, LONGEST = 4, 60


def history():
    """The outcome depends on the sign pattern of the last three visits."""
    n = int(torch.randint(4, 16, (1,)))
    if torch.rand(1) < 0.1:
        n = LONGEST
    visits = torch.randn(n, FEATURES)
    outcome = (visits[-1, 0] + visits[-2, 0] + 0.7 * visits[-1, 1] > 0).long()
    return visits, outcome


def collate(items):
    visits, outcome = zip(*items)
    lengths = torch.tensor([len(v) for v in visits])
    return pad_sequence(visits, batch_first=True), lengths, torch.stack(outcome)


class Outcome(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.gru = nn.GRU(FEATURES, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, visits, lengths):
        states, _ = self.gru(visits)
        final = states[:, -1]
        return self.head(self.norm(final))


def make_loader(n, shuffle):
    return DataLoader([history() for _ in range(n)], batch_size=32, shuffle=shuffle, collate_fn=collate)


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for visits, lengths, outcome in loader:
            right += (model(visits, lengths).argmax(1) == outcome).sum().item()
            total += len(outcome)
    return right / total


train, val = make_loader(1000, True), make_loader(300, False)
model = Outcome()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for visits, lengths, outcome in train:
        loss = F.cross_entropy(model(visits, lengths), outcome)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {evaluate(model, val):.3f}")
