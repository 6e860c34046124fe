"""Credit default scoring on a small portfolio: wide MLP, keep the epoch with the best validation loss."""
import copy
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

SEED, EPOCHS, BATCH, LR = 2, 36, 64, 8e-4
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


def portfolio(n):
    x = rng.normal(size=(n, 20))
    z = 1.2 * x[:, 0] - 1.0 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3] + 0.7 * np.abs(x[:, 4]) - 1.6
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def auc(score, label):
    pos, neg = score[label == 1], score[label == 0]
    return (pos[:, None] > neg[None, :]).float().mean().item()


class Scorecard(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LR)
        self.best_loss, self.best_epoch, self.best_state = float("inf"), -1, None

    def run_epoch(self, x, y):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(BATCH):
            loss = F.binary_cross_entropy_with_logits(self.model(x[idx]), y[idx])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def predict(self, x):
        self.model.eval()
        return self.model(x)

    def fit(self, train, val):
        for epoch in range(EPOCHS):
            train_loss = self.run_epoch(*train)
            val_loss = F.binary_cross_entropy_with_logits(self.predict(val[0]), val[1]).item()
            if val_loss < self.best_loss:
                self.best_loss, self.best_epoch = val_loss, epoch
                self.best_state = copy.deepcopy(self.model.state_dict())
            if epoch % 9 == 0:
                print(f"epoch {epoch:2d} train {train_loss:.4f} val {val_loss:.4f}")
        self.model.load_state_dict(self.best_state)
        print(f"restored epoch {self.best_epoch} (val {self.best_loss:.4f})")


train, val, test = portfolio(1500), portfolio(600), portfolio(3000)
trainer = Trainer(Scorecard(20))
trainer.fit(train, val)
logit = trainer.predict(test[0])
print(f"test log-loss {F.binary_cross_entropy_with_logits(logit, test[1]).item():.4f} AUC {auc(logit, test[1]):.3f} "
      f"base rate log-loss {F.binary_cross_entropy(test[1].mean().expand(3000), test[1]).item():.4f}")
