import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(8)
torch.manual_seed(8)
NAMES = ["normal", "bearing", "leak", "short"]
SHARES = [0.90, 0.06, 0.025, 0.015]
CENTRES = np.array([[0, 0, 0, 0], [1.6, 0.4, 0, 0.5], [0, 1.7, -0.8, 0], [-0.9, 0, 1.7, 0.6]])


def machine_log(n, shares):
    label = rng.choice(len(NAMES), size=n, p=shares)
    values = CENTRES[label] + rng.normal(size=(n, 4)) * 0.75
    return torch.tensor(values, dtype=torch.float32), torch.tensor(label)


def balance(label, beta=0.9995):
    count = torch.bincount(label, minlength=len(NAMES)).double()
    effective = (1.0 - beta ** count) / (1.0 - beta)
    weight = effective
    return (weight / weight.sum() * len(NAMES)).float()


def recalls(model, x, label):
    model.eval()
    with torch.no_grad():
        guess = model(x).argmax(1)
    return [(guess[label == k] == k).float().mean().item() for k in range(len(NAMES))]


x_train, y_train = machine_log(6000, SHARES)
x_val, y_val = machine_log(2000, [0.25] * 4)
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=128, shuffle=True)
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, len(NAMES)))
criterion = nn.CrossEntropyLoss(weight=balance(y_train))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(6):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    r = recalls(model, x_val, y_val)
    print(f"epoch {epoch} loss {total / len(loader):.4f} macro recall {sum(r) / len(r):.3f} | " + " ".join(f"{n} {v:.2f}" for n, v in zip(NAMES, r)))
