import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)


def blobs(n):
    """Oriented gratings with noise, one class for each of four directions."""
    y = torch.randint(0, 4, (n,))
    grid = torch.linspace(-1, 1, 16)
    gy, gx = torch.meshgrid(grid, grid, indexing="ij")
    ang = y.float() * torch.pi / 4 + 0.12 * torch.randn(n)
    phase = torch.rand(n) * 6.28
    arg = gx * ang.cos().view(-1, 1, 1) + gy * ang.sin().view(-1, 1, 1)
    img = torch.sin(7 * arg + phase.view(-1, 1, 1)) + 0.9 * torch.randn(n, 16, 16)
    return img.unsqueeze(1), y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16))
        self.body = nn.Sequential(
            nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Dropout(0.4), nn.Linear(96, 4),
        )

    def freeze_stem(self):
        for p in self.stem.parameters():
            p.requires_grad_(False)
        self.frozen = True

    def train(self, mode=True):
        super().train()
        if getattr(self, "frozen", False):
            self.stem.eval()
        return self

    def forward(self, x):
        return self.body(self.stem(x))


class Trainer:
    def __init__(self, net, lr):
        self.net = net
        self.opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=lr, momentum=0.9)

    def fit(self, x, y, epochs, size):
        for epoch in range(epochs):
            self.net.train()
            for idx in torch.randperm(len(x)).split(size):
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(x[idx]), y[idx])
                loss.backward()
                self.opt.step()
            yield epoch, loss.item()

    @torch.no_grad()
    def score(self, x, y):
        self.net.eval()
        out = torch.cat([self.net(c) for c in x.split(4)])
        return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


xtr, ytr = blobs(1200)
xva, yva = blobs(400)
net = Net()
with torch.no_grad():
    for chunk in xtr.split(100):
        net.stem(chunk)
net.freeze_stem()
trainer = Trainer(net, lr=0.03)
for epoch, last in trainer.fit(xtr, ytr, epochs=8, size=50):
    vloss, vacc = trainer.score(xva, yva)
    print(f"epoch {epoch}  loss {last:.3f}  valid loss {vloss:.3f}  valid acc {vacc:.3f}")
