"""Regression on standardised features, targets of shape [B], early stopping by a plateau schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
features = torch.randn(600, 8)
target = (features @ torch.randn(8, 1)).squeeze(1) + 0.1 * torch.randn(600)
train = DataLoader(TensorDataset(features[:500], target[:500]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(features[500:], target[500:]), batch_size=50)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.05), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
loss_fn = nn.MSELoss()
losses = []
for epoch in range(12):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        prediction = model(x).squeeze(1)
        loss = loss_fn(prediction, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in valid:
            total += loss_fn(model(x).squeeze(1), y).item()
    scheduler.step(total / len(valid))
