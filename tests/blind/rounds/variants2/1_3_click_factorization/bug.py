import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
USERS, ITEMS, RANK = 120, 90, 4
EPS = 1e-6

taste = torch.randn(USERS, RANK)
style = torch.randn(ITEMS, RANK)
popularity = 0.7 * torch.randn(ITEMS)
affinity = 1.5 * (taste @ style.T) + popularity
clicks = torch.bernoulli(torch.sigmoid(affinity))

pairs = torch.cartesian_prod(torch.arange(USERS), torch.arange(ITEMS))
pairs = pairs[torch.randperm(len(pairs))]
labels = clicks[pairs[:, 0], pairs[:, 1]]
cut = int(0.8 * len(pairs))
loader = DataLoader(TensorDataset(pairs[:cut], labels[:cut]), batch_size=256, shuffle=True)
held_pairs, held_labels = pairs[cut:], labels[cut:]


class Factorizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, RANK)
        self.item = nn.Embedding(ITEMS, RANK)
        self.bias = nn.Embedding(ITEMS, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)
        nn.init.zeros_(self.bias.weight)

    def forward(self, ui):
        u, i = ui.unbind(1)
        return (self.user(u) * self.item(i)).sum(1) + self.bias(i).squeeze(1)


def chance(score):
    return score.clamp(EPS, 1 - EPS)


def bernoulli_nll(score, y):
    p = chance(score)
    return -(y * torch.log(p) + (1 - y) * torch.log1p(-p)).mean()


def auc(score, y):
    ranks = score.argsort().argsort().float() + 1
    pos = y.sum()
    neg = len(y) - pos
    return ((ranks[y == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


model = Factorizer()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(10):
    model.train()
    running = 0.0
    for ui, y in loader:
        optimizer.zero_grad()
        loss = bernoulli_nll(model(ui), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        s = model(held_pairs)
        print(f"epoch {epoch} train {running / len(loader):.4f} "
              f"val {bernoulli_nll(s, held_labels).item():.4f} auc {auc(s, held_labels):.3f}")
