import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    """Bags of words of different length; the topic shifts the word frequencies."""

    def __init__(self, n, table, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, len(table), (n,), generator=g)
        self.bags = [torch.multinomial(table[t], int(k), True, generator=g)
                     for t, k in zip(self.y.tolist(), torch.randint(15, 40, (n,), generator=g))]

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        return self.bags[i], self.y[i]


def collate(batch):
    bags, y = zip(*batch)
    offsets = torch.tensor([0] + [len(b) for b in bags[:-1]]).cumsum(0)
    return torch.cat(bags), offsets, torch.stack(y)


class Bag(nn.Module):
    def __init__(self, words, topics, d=32):
        super().__init__()
        self.emb = nn.EmbeddingBag(words, d, mode="mean")
        self.out = nn.Linear(d, topics)

    def forward(self, words, offsets):
        return self.out(self.emb(words, offsets))


class Trainer:
    def __init__(self, model, lr=0.5):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt, factor=0.2, patience=0)

    def train_epoch(self, loader):
        self.model.train()
        for words, offsets, y in loader:
            loss = nn.functional.cross_entropy(self.model(words, offsets), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        loss = right = n = 0
        for words, offsets, y in loader:
            out = self.model(words, offsets)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            right += (out.argmax(1) == y).sum().item()
            n += len(y)
        return loss / n, right / n

    def fit(self, train, valid, epochs):
        for epoch in range(epochs):
            self.train_epoch(train)
            loss, acc = self.validate(valid)
            self.plateau.step(loss)
            print(f"epoch {epoch} valid loss {loss:.4f} acc {acc:.3f} next rate {self.opt.param_groups[0]['lr']:.5f}")


torch.manual_seed(19)
table = torch.softmax(1.0 * torch.randn(8, 200), dim=1)
train = DataLoader(Documents(2000, table, 1), batch_size=64, shuffle=True, collate_fn=collate)
valid = DataLoader(Documents(500, table, 2), batch_size=250, collate_fn=collate)
Trainer(Bag(200, 8)).fit(train, valid, epochs=9)
