import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, random_split

torch.manual_seed(27)


class Transactions(Dataset):
    def __init__(self, n):
        self.label = (torch.rand(n) < 0.06).long()
        amount = torch.randn(n, 9)
        amount[:, 0] += 1.3 * self.label
        amount[:, 1] += 1.1 * self.label
        amount[:, 2] *= 1 + 1.0 * self.label
        self.shop = torch.randint(0, 12, (n,))
        self.shop = torch.where((self.label == 1) & (torch.rand(n) < 0.4), torch.tensor(3), self.shop)
        self.amount = amount

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return (self.amount[i], self.shop[i]), self.label[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shop = nn.Embedding(12, 6)
        self.mlp = nn.Sequential(nn.Linear(15, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, amount, shop):
        return self.mlp(torch.cat([amount, self.shop(shop)], dim=1))


table = Transactions(5000)
train_part, valid_part = random_split(table, [4000, 1000])

labels = table.label[: len(train_part)]
row_weight = (1.0 / torch.bincount(labels).float())[labels]
sampler = WeightedRandomSampler(row_weight, num_samples=len(train_part), replacement=True)
train_dl = DataLoader(train_part, batch_size=100, sampler=sampler)
valid_dl = DataLoader(valid_part, batch_size=250)

net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.02)
for epoch in range(5):
    net.train()
    frauds = rows = 0
    for (amount, shop), y in train_dl:
        loss = F.cross_entropy(net(amount, shop), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        frauds += y.sum().item()
        rows += len(y)
    net.eval()
    confusion = torch.zeros(2, 2)
    with torch.no_grad():
        for (amount, shop), y in valid_dl:
            pred = net(amount, shop).argmax(1)
            confusion += torch.bincount(2 * y + pred, minlength=4).view(2, 2)
    rec = confusion.diag() / confusion.sum(1)
    print(f"epoch {epoch}  loss {loss.item():.3f}  acc {(confusion.diag().sum() / confusion.sum()).item():.3f}  "
          f"recall normal {rec[0]:.3f}  recall fraud {rec[1]:.3f}")
