# Fault type of elevators from ride signatures; rare faults are weighted.
import json
import sys
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(12)
folder = sys.argv[1]
LR = 0.005
EPOCHS = 10
BATCH = 100


def get(part):
    z = np.load(folder + "/" + part + ".npz")
    return torch.as_tensor(z["x"]), torch.as_tensor(z["y"])


x_train, y_train = get("train")
x_test, y_test = get("test")
weights = json.load(open(folder + "/weights.json"))
names = list(weights)
loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([weights[n] for n in names]))

model = nn.Sequential(
    nn.Linear(x_train.shape[1], 40),
    nn.ReLU(),
    nn.Linear(40, len(names)),
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)


def recalls():
    with torch.no_grad():
        guess = model(x_test).argmax(1)
    return [(guess[y_test == k] == k).float().mean().item() for k in range(len(names))]


for epoch in range(EPOCHS):
    epoch_loss = 0.0
    for rows in torch.randperm(len(x_train)).split(BATCH):
        optimizer.zero_grad()
        loss = loss_fn(model(x_train[rows]), y_train[rows])
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    r = recalls()
    if epoch % 3 == 0:
        print(f"epoch {epoch + 1} loss {epoch_loss / 20:.3f} balanced recall {sum(r) / len(r):.3f}")

r = recalls()
print("  ".join(f"{n} {v:.2f}" for n, v in zip(names, r)))
print(f"balanced recall {sum(r) / len(r):.3f}")
