import copy
import numpy as np
import torch

torch.manual_seed(7)
rs = np.random.RandomState(7)


def cellar(n):
    X = rs.normal(size=(n, 20)).astype("float32")
    score = 1.2 * X[:, 0] - 0.9 * X[:, 1] + 0.7 * X[:, 2] * X[:, 3]
    y = (score + rs.normal(scale=1.0, size=n) > 0).astype("float32")
    return torch.from_numpy(X), torch.from_numpy(y)[:, None]


class BestKeeper:
    def __init__(self, patience):
        self.patience = patience
        self.best, self.bad, self.weights = float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def make_net():
    return torch.nn.Sequential(
        torch.nn.Linear(20, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 1),
    )


def log_loss(net, X, y):
    net.eval()
    with torch.inference_mode():
        value = torch.nn.functional.binary_cross_entropy_with_logits(net(X), y).item()
    net.train()
    return value


X_tr, y_tr = cellar(400)
X_va, y_va = cellar(400)
X_te, y_te = cellar(2000)

net = make_net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
keeper = BestKeeper(patience=25)

for epoch in range(200):
    for idx in torch.randperm(len(X_tr)).split(40):
        optimizer.zero_grad()
        out = net(X_tr[idx])
        torch.nn.functional.binary_cross_entropy_with_logits(out, y_tr[idx]).backward()
        optimizer.step()
    v = log_loss(net, X_va, y_va)
    if epoch % 5 == 0:
        print(f"epoch {epoch:3d} train {log_loss(net, X_tr, y_tr):.3f} val {v:.3f}")
    if keeper(v, net):
        print("stopping at epoch", epoch, "best val", round(keeper.best, 4))
        break

net.load_state_dict(keeper.weights)
print(f"test log loss {log_loss(net, X_te, y_te):.4f}")
