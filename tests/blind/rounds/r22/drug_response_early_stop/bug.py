"""Predicts drug response (log IC50) of cell lines from gene expression; keeps the best epoch."""
import copy

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(2)
rng = np.random.default_rng(2)

GENES, LINES = 150, 900


def expression_table():
    pathways = rng.normal(size=(LINES, 10))
    loading = rng.normal(size=(10, GENES)) * (rng.random((10, GENES)) < 0.3)
    expr = pathways @ loading + 0.8 * rng.normal(size=(LINES, GENES))
    ic50 = pathways[:, 0] - 0.8 * pathways[:, 1] + 0.6 * np.tanh(2 * pathways[:, 2]) + 0.5 * pathways[:, 3] * (pathways[:, 4] > 0)
    ic50 = ic50 + 0.7 * rng.normal(size=LINES)
    return expr.astype(np.float32), ic50.astype(np.float32)


class ResponseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(GENES, 256), nn.ReLU(),
            nn.Linear(256, 128), nn.ReLU(),
            nn.Linear(128, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best_loss = float("inf")
        self.best_state = None
        self.bad_epochs = 0

    def update(self, loss, model):
        if loss < self.best_loss:
            self.best_loss = loss
            self.best_state = copy.copy(model.state_dict())
            self.bad_epochs = 0
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def mse(model, x, y):
    model.eval()
    with torch.no_grad():
        return torch.mean((model(x) - y) ** 2).item()


def r2(model, x, y):
    return 1 - mse(model, x, y) / y.var(unbiased=False).item()


def main():
    expr, ic50 = expression_table()
    order = rng.permutation(LINES)
    tr, va, te = order[:450], order[450:650], order[650:]
    mu, sd = expr[tr].mean(0), expr[tr].std(0) + 1e-6
    x = torch.from_numpy((expr - mu) / sd)
    y = torch.from_numpy(ic50 - ic50[tr].mean())
    x_tr, y_tr = x[tr], y[tr]

    model = ResponseNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=7e-4)
    stopper = EarlyStopping(patience=40)
    for epoch in range(120):
        model.train()
        for idx in torch.randperm(len(tr)).split(32):
            loss = nn.functional.mse_loss(model(x_tr[idx]), y_tr[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val = mse(model, x[va], y[va])
        if epoch % 10 == 0:
            print(f"epoch {epoch} train {mse(model, x_tr, y_tr):.3f} val {val:.3f}")
        if stopper.update(val, model):
            print(f"stopped after epoch {epoch}, best validation loss {stopper.best_loss:.4f}")
            break

    model.load_state_dict(stopper.best_state)
    print(f"test MSE of the kept model: {mse(model, x[te], y[te]):.4f}  R2 {r2(model, x[te], y[te]):.4f}")


if __name__ == "__main__":
    main()
