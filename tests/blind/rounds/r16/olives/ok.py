"""Region of origin of olive oils from fatty acid profiles; keeps the epoch with the best validation score."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
N_ACIDS, N_REGIONS = 30, 4
centres = torch.randn(N_REGIONS, N_ACIDS) * 0.6


def sample(n, mislabel=0.0):
    region = torch.randint(0, N_REGIONS, (n,))
    profile = centres[region] + torch.randn(n, N_ACIDS)
    swap = torch.rand(n) < mislabel
    label = torch.where(swap, torch.randint(0, N_REGIONS, (n,)), region)
    return profile, label


train_x, train_y = sample(240, mislabel=0.35)
val_x, val_y = sample(300)
test_x, test_y = sample(2000)

model = nn.Sequential(
    nn.Linear(N_ACIDS, 256), nn.ReLU(),
    nn.Linear(256, 256), nn.ReLU(),
    nn.Linear(256, N_REGIONS),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def score(x, y):
    model.eval()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


best_acc, best_weights, best_epoch = 0.0, None, -1
for epoch in range(50):
    total = 0.0
    for rows in torch.randperm(len(train_x)).split(32):
        loss = F.cross_entropy(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    acc = score(val_x, val_y)
    if acc > best_acc:
        best_acc, best_epoch = acc, epoch
        best_weights = copy.deepcopy(model.state_dict())
    if epoch % 10 == 0:
        print(f"epoch {epoch:2d} train loss {total / len(train_x):.3f} val acc {acc:.3f}")

model.load_state_dict(best_weights)
print(f"best epoch {best_epoch} (val {best_acc:.3f})")
print(f"test accuracy {score(test_x, test_y):.3f}")
