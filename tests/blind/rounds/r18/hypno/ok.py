import numpy as np
import torch
import torch.nn as nn

STAGES = ["W", "N1", "N2", "N3", "REM"]
# delta, theta, alpha, sigma, beta, chin EMG (log power, arbitrary units)
MEANS = np.array([[-0.6, -0.3, 1.0, -0.3, 0.8, 1.2],
                  [-0.4, 0.4, 0.1, -0.2, 0.3, 0.4],
                  [0.2, 0.4, -0.3, 0.8, -0.2, -0.1],
                  [1.4, 0.3, -0.6, 0.2, -0.7, -0.4],
                  [-0.4, 0.5, -0.1, -0.3, 0.4, -1.0]])
TRANS = np.array([[0.93, 0.06, 0.01, 0.00, 0.00],
                  [0.05, 0.80, 0.14, 0.00, 0.01],
                  [0.01, 0.02, 0.92, 0.04, 0.01],
                  [0.01, 0.00, 0.06, 0.93, 0.00],
                  [0.02, 0.02, 0.01, 0.00, 0.95]])


def night(rng, n_epochs=140):
    s, hyp = 0, []
    for _ in range(n_epochs):
        s = rng.choice(5, p=TRANS[s])
        hyp.append(s)
    hyp = np.array(hyp)
    subj = rng.normal(0, 0.2, 6)
    x = MEANS[hyp] * rng.uniform(0.8, 1.2) + subj + rng.normal(0, 1.0, (n_epochs, 6))
    return x.astype(np.float32), hyp


def cohort(n, seed):
    rng = np.random.default_rng(seed)
    xs, ys = zip(*(night(rng) for _ in range(n)))
    return torch.tensor(np.stack(xs)), torch.tensor(np.stack(ys))


class Scorer(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.context = nn.GRU(32, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(2 * hidden, 5)

    def forward(self, x):
        """x: (nights, epochs, 6) -> (nights, epochs, 5)"""
        h, _ = self.context(self.front(x))
        return self.head(self.drop(h))


def kappa(pred, true):
    c = np.zeros((5, 5))
    np.add.at(c, (true, pred), 1)
    c /= c.sum()
    pe = (c.sum(0) * c.sum(1)).sum()
    return (np.trace(c) - pe) / (1 - pe)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x).argmax(-1)
    model.train()
    return (p == y).float().mean().item(), kappa(p.numpy().ravel(), y.numpy().ravel())


torch.manual_seed(0)
x_train, y_train = cohort(48, 10)
x_test, y_test = cohort(20, 77)
mu, sd = x_train.mean((0, 1)), x_train.std((0, 1))
x_train, x_test = (x_train - mu) / sd, (x_test - mu) / sd

model = Scorer()
opt = torch.optim.Adam(model.parameters(), lr=8e-3, weight_decay=1e-5)
crit = nn.CrossEntropyLoss()
for epoch in range(8):
    order = torch.randperm(len(x_train))
    losses = []
    for k in range(0, len(order), 6):
        b = order[k:k + 6]
        logits = model(x_train[b])
        loss = crit(logits.reshape(-1, 5), y_train[b].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    if epoch % 2 == 1:
        print(f"epoch {epoch + 1:2d} loss {np.mean(losses):.3f}")
acc, k = evaluate(model, x_test, y_test)
print(f"test nights: accuracy {acc:.3f}, kappa {k:.3f}")
