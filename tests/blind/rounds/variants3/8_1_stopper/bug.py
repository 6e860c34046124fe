import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)


class Stopper:
    def __init__(self, patience, mode="min"):
        self.patience, self.sign = patience, 1 if mode == "min" else -1
        self.best, self.state, self.waited = None, None, 0

    def update(self, value, model):
        if self.best is None or self.sign * value < self.sign * self.best:
            self.best, self.waited = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience


def clicks(n):
    x = torch.randn(n, 12)
    score = 1.5 * x[:, 0] * x[:, 1] + torch.relu(x[:, 2]) * 2 - x[:, 3] - 1.5
    return x, torch.bernoulli(torch.sigmoid(2 * score))


def auc(logit, y):
    rank = torch.empty(len(logit))
    rank[logit.argsort()] = torch.arange(1.0, len(logit) + 1)
    pos = y.sum()
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


@torch.no_grad()
def predict(model, x):
    model.eval()
    return model(x).squeeze(1)


train_x, train_y = clicks(2000)
valid_x, valid_y = clicks(800)
test_x, test_y = clicks(1500)
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=100, shuffle=True)

model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1.5e-3)
stopper = Stopper(patience=5)

for epoch in range(20):
    model.train()
    for x, y in loader:
        loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    score = auc(predict(model, valid_x), valid_y)
    print(f"epoch {epoch:2d}  last loss {loss.item():.4f}  valid auc {score:.4f}")
    if stopper.update(score, model):
        print("stopping")
        break

model.load_state_dict(stopper.state)
print(f"kept auc {stopper.best:.4f}  test auc {auc(predict(model, test_x), test_y):.4f}")
