"""A dropout MLP over pixel values, with a schedule, validation and the best weights kept."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
raw = torch.randint(0, 256, (640, 64)).float()
labels = (raw[:, :16].sum(1) > raw[:, 16:32].sum(1)).long() + (raw[:, 32:48].sum(1) > raw[:, 48:].sum(1)).long()
pixels = (raw / 255 - 0.5) / 0.29
train_loader = DataLoader(TensorDataset(pixels[:512], labels[:512]), batch_size=64, shuffle=True)
valid_loader = DataLoader(TensorDataset(pixels[512:], labels[512:]), batch_size=64)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        for block in self.blocks:
            x = self.dropout(torch.relu(block(x)))
        return self.head(x)


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
epochs = 14
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
criterion = nn.CrossEntropyLoss()
best, best_weights = 0.0, None
for epoch in range(epochs):
    model.train()
    running = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in valid_loader:
            correct += (model(x).argmax(1) == y).sum().item()
    if correct > best:
        best = correct
        best_weights = copy.deepcopy(model.state_dict())
model.load_state_dict(best_weights)
