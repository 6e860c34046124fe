import copy
import numpy as np
import torch
from torch import nn

N_FEATURES, PATIENCE, MAX_EPOCHS = 40, 12, 40


def risk_data(n, rng, coef):
    x = rng.normal(0, 1, (n, N_FEATURES)).astype(np.float32)
    y = x @ coef + 0.5 * x[:, 0] * x[:, 1] + rng.normal(0, 1.0, n)
    return torch.from_numpy(x), torch.tensor(y, dtype=torch.float32)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.state = patience, float("inf"), 0, None

    def update(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def mse(model, x, y):
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x).squeeze(1), y).item()


def main():
    torch.manual_seed(29)
    rng = np.random.default_rng(29)
    coef = rng.normal(0, 0.3, N_FEATURES)
    x_train, y_train = risk_data(400, rng, coef)
    x_valid, y_valid = risk_data(400, rng, coef)
    x_test, y_test = risk_data(1000, rng, coef)
    model = nn.Sequential(nn.Linear(N_FEATURES, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    stopper = EarlyStopping(PATIENCE)
    for epoch in range(MAX_EPOCHS):
        model.train()
        for idx in torch.randperm(len(x_train)).split(32):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x_train[idx]).squeeze(1), y_train[idx])
            loss.backward()
            optimizer.step()
        valid = mse(model, x_valid, y_valid)
        print(f"epoch {epoch} train {mse(model, x_train, y_train):.3f} valid {valid:.3f}")
        if stopper.update(valid, model):
            print(f"stopped after epoch {epoch}")
            break
    model.load_state_dict(stopper.state)
    print(f"best valid {stopper.best:.3f} valid of restored model {mse(model, x_valid, y_valid):.3f} test {mse(model, x_test, y_test):.3f}")


if __name__ == "__main__":
    main()
