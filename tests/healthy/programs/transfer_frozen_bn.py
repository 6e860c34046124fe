"""Transfer learning: pretrain, freeze the backbone and its batch norms, train a new head, then fine-tune the last block
gently."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def stripes(count, kinds):
    y = torch.randint(0, kinds, (count,))
    phase = torch.arange(16).float()[None, :] * (1 + y[:, None]) * 0.4
    rows = torch.sin(phase + torch.rand(count, 1) * 6)
    return rows[:, None, None, :].expand(-1, 1, 16, -1) + 0.2 * torch.randn(count, 1, 16, 16), y


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.block2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d((1, 4))
        self.fc = nn.Linear(64, 3)

    def forward(self, x):
        x = self.pool(self.block2(self.block1(x)))
        return self.fc(torch.flatten(x, 1))


def freeze_bn(model):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.eval()


def run_epoch(model, loader, criterion, optimizer=None, frozen_bn=False):
    training = optimizer is not None
    model.train(training)
    if training and frozen_bn:
        freeze_bn(model)
    total, correct = 0.0, 0
    with torch.set_grad_enabled(training):
        for inputs, labels in loader:
            if training:
                optimizer.zero_grad()
            outputs = model(inputs)
            _, preds = torch.max(outputs, 1)
            loss = criterion(outputs, labels)
            if training:
                loss.backward()
                optimizer.step()
            total += loss.item() * inputs.size(0)
            correct += torch.sum(preds == labels.data)
    return total / len(loader.dataset), (correct.double() / len(loader.dataset)).item()


criterion = nn.CrossEntropyLoss()
pretrain = DataLoader(TensorDataset(*stripes(256, 3)), batch_size=32, shuffle=True)
model = Backbone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(3):
    print("pretrain", run_epoch(model, pretrain, criterion, optimizer))

for param in model.parameters():
    param.requires_grad = False
num_ftrs = model.fc.in_features
model.fc = nn.Linear(num_ftrs, 5)

train_loader = DataLoader(TensorDataset(*stripes(256, 5)), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(*stripes(96, 5)), batch_size=32, shuffle=False)
optimizer_ft = torch.optim.SGD(model.fc.parameters(), lr=0.05, momentum=0.9)
exp_lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer_ft, step_size=2, gamma=0.5)
for epoch in range(4):
    train_stats = run_epoch(model, train_loader, criterion, optimizer_ft, frozen_bn=True)
    val_stats = run_epoch(model, val_loader, criterion)
    exp_lr_scheduler.step()
    print("head", epoch, train_stats, val_stats)

for param in model.block2.parameters():
    param.requires_grad = True
optimizer_ft = torch.optim.AdamW(
    [{"params": model.block2.parameters(), "lr": 1e-4}, {"params": model.fc.parameters(), "lr": 1e-3}],
    weight_decay=0.01,
)
for epoch in range(2):
    train_stats = run_epoch(model, train_loader, criterion, optimizer_ft, frozen_bn=True)
    val_stats = run_epoch(model, val_loader, criterion)
    print("fine", epoch, train_stats, val_stats)
