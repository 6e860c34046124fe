"""Mixed precision with a scaler on the CPU, clipping after unscale_, schedules per batch and per epoch, a compiled
model."""

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(101)
x = torch.randn(480, 10)
y = (x[:, :3].sum(1) > 0).long() + (x[:, 3] > 1).long()
train = TensorDataset(x[:400], y[:400])
valid = TensorDataset(x[400:], y[400:])


def build():
    return nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))


def validate(model):
    model.eval()
    right = 0
    with torch.inference_mode():
        for xb, yb in DataLoader(valid, batch_size=32):
            right += (model(xb).argmax(1) == yb).sum().item()
    model.train()
    return right / len(valid)


criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
loader = DataLoader(train, batch_size=40, shuffle=True, drop_last=True)

model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=3 * len(loader))
for epoch in range(3):
    for xb, yb in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(xb), yb)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    print(f"one cycle {epoch}: {loss.item():.3f}, {validate(model):.2f}")

model = torch.compile(build(), backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.3)
for epoch in range(4):
    model.train()
    for xb, yb in loader:
        loss = criterion(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(f"compiled {epoch}: {loss.item():.3f}, {validate(model):.2f}, rate {scheduler.get_last_lr()[0]:.4f}")

model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
plateau = lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.3, patience=0)
for epoch in range(3):
    for xb, yb in loader:
        optimizer.zero_grad()
        criterion(model(xb), yb).backward()
        optimizer.step()
    plateau.step(validate(model))

model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
cyclic = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
for epoch in range(4):
    for i, (xb, yb) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(xb), yb).backward()
        optimizer.step()
        cyclic.step(epoch + i / len(loader))
print("warm restarts by fractions of an epoch", validate(model))
