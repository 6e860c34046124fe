import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(33)
PX = 12


def shapes(n):
    gy, gx = torch.meshgrid(torch.arange(PX), torch.arange(PX), indexing="ij")
    kind = torch.randint(0, 3, (n,))
    cy, cx = torch.randint(4, PX - 4, (2, n, 1, 1))
    dy, dx = (gy - cy).abs(), (gx - cx).abs()
    square = torch.maximum(dy, dx) == 3
    diamond = (dy + dx) == 3
    cross = ((dy == 0) | (dx == 0)) & (dy + dx <= 3)
    img = torch.stack([square, diamond, cross], 1)[torch.arange(n), kind].float()
    return (img + 0.25 * torch.randn(n, PX, PX)).unsqueeze(1), kind


class Shapes(Dataset):
    def __init__(self, n, augment):
        self.images, self.kinds = shapes(n)
        self.augment = augment

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        img = self.images[i].clone()
        if self.augment:
            img *= 0.6 + 0.8 * torch.rand(())
            img += 0.35 * torch.randn_like(img)
            img.clamp_(-2, 2)
        return img, self.kinds[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 12, 3), nn.Conv2d(12, 24, 3)
        self.fc = nn.Linear(24 * 16, 3)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(x.flatten(1))


train_dl = DataLoader(Shapes(900, augment=True), batch_size=45, shuffle=True)
valid_dl = DataLoader(Shapes(300, augment=False), batch_size=100)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)

for epoch in range(12):
    net.train()
    total = 0.0
    for img, kind in train_dl:
        loss = F.cross_entropy(net(img), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / len(train_dl)
    net.eval()
    with torch.no_grad():
        hits = sum((net(img).argmax(1) == kind).sum().item() for img, kind in valid_dl)
    print(f"epoch {epoch:2d}  train {total:.4f}  valid acc {hits / 300:.4f}")
