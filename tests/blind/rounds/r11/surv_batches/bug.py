"""Deep Cox model: time to relapse from tabular covariates, right censored."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def cohort(n, seed):
    r = np.random.RandomState(seed)
    x = r.randn(n, 12).astype(np.float32)
    risk = 0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.7 * x[:, 2] ** 2 - 0.6 * x[:, 3] * x[:, 4]
    event_time = r.exponential(1.0, n) * np.exp(-risk) * 24
    censor_time = r.uniform(2, 60, n)
    time = np.minimum(event_time, censor_time).astype(np.float32)
    return x, time, (event_time <= censor_time).astype(np.float32)


class CoxLoss(nn.Module):
    """Negative log partial likelihood; the risk set of a row is every row before it, longest follow-up first."""

    def forward(self, score, time, event):
        log_risk = torch.logcumsumexp(score, dim=0)
        return -((score - log_risk) * event).sum() / event.sum().clamp(min=1)


class RiskNet(nn.Module):
    def __init__(self, d_in, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, width), nn.SiLU(), nn.Dropout(0.1),
                                 nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1, bias=False))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def concordance(score, time, event):
    earlier = (time[:, None] < time[None, :]) & (event[:, None] == 1)
    diff = score[:, None] - score[None, :]
    return ((diff > 0)[earlier].sum() + 0.5 * (diff == 0)[earlier].sum()) / earlier.sum()


class Trainer:
    def __init__(self, epochs=24, batch=128, lr=2e-3, seed=17):
        torch.manual_seed(seed)
        self.epochs = epochs
        x, t, e = cohort(3600, 1)
        by_follow_up = np.argsort(-t[:3000])
        fit = [torch.from_numpy(a[:3000][by_follow_up]) for a in (x, t, e)]
        self.val = x[3000:], t[3000:], e[3000:]
        self.test = cohort(1200, 2)
        self.loader = DataLoader(TensorDataset(*fit), batch_size=batch, shuffle=True, drop_last=True)
        self.model = RiskNet(x.shape[1])
        self.loss = CoxLoss()
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=lr, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.93)

    def c_index(self, split):
        x, t, e = split
        self.model.eval()
        with torch.no_grad():
            s = self.model(torch.from_numpy(x)).numpy()
        self.model.train()
        return concordance(s, t, e)

    def fit(self):
        for epoch in range(self.epochs):
            total = 0.0
            for x, t, e in self.loader:
                loss = self.loss(self.model(x), t, e)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item()
            self.sched.step()
            if epoch % 4 == 3:
                print(f"epoch {epoch + 1:2d} nll {total / len(self.loader):.4f} val c-index {self.c_index(self.val):.4f}")
        print(f"test c-index {self.c_index(self.test):.4f}")


if __name__ == "__main__":
    Trainer().fit()
