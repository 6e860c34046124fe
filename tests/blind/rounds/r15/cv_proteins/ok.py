"""Five-fold cross validation of a solubility classifier; the mean over folds goes into the report."""
import numpy as np
import torch
import torch.nn as nn


def composition_table(n, rng):
    counts = rng.dirichlet(np.ones(20) * 4, size=n).astype(np.float32)
    logit = 45 * (counts[:, 0] - counts[:, 1]) + 35 * (counts[:, 2] - counts[:, 3])
    y = (logit + rng.logistic(size=n) > 0).astype(np.int64)
    x = (counts - 0.05) / 0.024
    return torch.from_numpy(x), torch.from_numpy(y)


def folds(n, k, rng):
    order = rng.permutation(n)
    for part in np.array_split(order, k):
        rest = np.setdiff1d(order, part)
        yield torch.from_numpy(rest), torch.from_numpy(part)


class Classifier(nn.Module):
    def __init__(self, d, hidden=96):
        super().__init__()
        self.a = nn.Linear(d, hidden)
        self.b = nn.Linear(hidden, hidden)
        self.c = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


def train_model(model, x, y, epochs=30):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(epochs):
        for idx in torch.randperm(len(x)).split(32):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x[idx]), y[idx]).backward()
            opt.step()
    return model


@torch.no_grad()
def score(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def cross_validate(x, y, k, rng):
    results = []
    for number, (tr, va) in enumerate(folds(len(x), k, rng)):
        model = Classifier(x.shape[1])
        train_model(model, x[tr], y[tr])
        results.append(score(model, x[va], y[va]))
        print(f"fold {number}: {results[-1]:.3f}")
    return float(np.mean(results))


if __name__ == "__main__":
    torch.manual_seed(77)
    rng = np.random.default_rng(77)
    x, y = composition_table(300, rng)
    cv = cross_validate(x, y, 5, rng)
    x_new, y_new = composition_table(3000, rng)
    final = train_model(Classifier(x.shape[1]), x, y)
    real = score(final, x_new, y_new)
    print(f"cross-validated accuracy {cv:.3f}, later measured on new proteins {real:.3f}")
    print(f"gap {abs(cv - real):.3f}")
