"""Many labels per sample, most of them absent: BCE with pos_weight, WeightedRandomSampler, a threshold on sigmoid in
evaluation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(17)
x = torch.randn(500, 12) * torch.linspace(0.5, 2, 12)
w = torch.randn(12, 5)
labels = ((x @ w) > 3.0).float()
train_x, train_y, test_x, test_y = x[:400], labels[:400], x[400:], labels[400:]
weights = 1.0 + 3.0 * train_y.amax(1)
sampler = WeightedRandomSampler(weights, num_samples=len(weights), replacement=True)
train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=40, sampler=sampler)
test_loader = DataLoader(TensorDataset(test_x, test_y), batch_size=64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(12, 48)
        self.bn1 = nn.BatchNorm1d(48)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(48, 5)
        self.register_buffer("mean", torch.zeros(12))
        self.register_buffer("std", torch.ones(12))

    def forward(self, x):
        x = (x - self.mean) / self.std
        return self.out(self.drop(torch.relu(self.bn1(self.fc1(x)))))


net = Net()
net.mean.copy_(train_x.mean(0))
net.std.copy_(train_x.std(0))
pos_weight = (train_y == 0).sum(0) / train_y.sum(0).clamp(min=1)
criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
steps_per_epoch, epochs = len(train_loader), 4
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, steps_per_epoch=steps_per_epoch, epochs=epochs)
history = []
for epoch in range(epochs):
    net.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        optimizer.step()
        scheduler.step()
        history.append(loss.detach())
    net.eval()
    tp = fp = fn = 0
    with torch.no_grad():
        for xb, yb in test_loader:
            guess = torch.sigmoid(net(xb)) > 0.5
            tp += (guess & (yb > 0)).sum().item()
            fp += (guess & (yb == 0)).sum().item()
            fn += (~guess & (yb > 0)).sum().item()
    print(
        f"epoch {epoch}: loss {torch.stack(history[-steps_per_epoch:]).mean():.3f}, F1 "
        f"{2 * tp / max(1, 2 * tp + fp + fn):.3f}"
    )

# the same labels once more, with probabilities out of the model and BCELoss
head = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 5), nn.Sigmoid())
optimizer = torch.optim.SGD(head.parameters(), lr=0.2, momentum=0.9)
bce = nn.BCELoss()
for _ in range(2):
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = bce(head(xb), yb)
        loss.backward()
        optimizer.step()
print("probabilities", loss.item())
