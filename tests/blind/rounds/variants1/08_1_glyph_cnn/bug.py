import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH = 6, 50


def glyphs(n):
    """Four 8x8 glyphs, shifted and noisy."""
    base = torch.zeros(4, 8, 8)
    base[0, 3:5] = 1
    base[1, :, 3:5] = 1
    base[2] = torch.eye(8) + torch.diag(torch.ones(7), 1)
    base[3] = base[2].flip(1)
    y = torch.randint(0, 4, (n,))
    img = torch.stack([torch.roll(base[c], tuple(torch.randint(-2, 3, (2,)).tolist()), (0, 1)) for c in y.tolist()])
    return TensorDataset((img + 0.7 * torch.randn(n, 8, 8))[:, None], y)


def warm_then_linear(warm, total):
    def factor(n):
        if n < warm:
            return (n + 1) / warm
        return max(0.0, (total - n) / (total - warm))
    return factor


def accuracy(net, loader):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


torch.manual_seed(23)
train_loader = DataLoader(glyphs(2000), batch_size=BATCH, shuffle=True)
valid_loader = DataLoader(glyphs(400), batch_size=200)
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
total = EPOCHS * len(train_loader)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_then_linear(total // 4, total))
criterion = nn.CrossEntropyLoss()

for epoch in range(EPOCHS):
    net.train()
    seen = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        seen += loss.item()
    scheduler.step()
    print(f"epoch {epoch} loss {seen / len(train_loader):.4f} valid accuracy {accuracy(net, valid_loader):.3f} "
          f"rate {optimizer.param_groups[0]['lr']:.5f}")
