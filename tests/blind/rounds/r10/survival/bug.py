"""Survival after surgery: neural Cox model, mini-batch partial likelihood, c-index."""
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn


def cohort(n=5000, seed=8):
    rng = np.random.default_rng(seed)
    age = rng.normal(62, 11, n)
    stage = rng.integers(1, 5, n)
    marker = rng.gamma(2.0, 1.0, n)
    albumin = rng.normal(3.8, 0.5, n)
    treated = rng.integers(0, 2, n)
    noise = rng.normal(size=(n, 6))
    risk = (0.04 * (age - 62) + 0.5 * (stage - 2) + 0.7 * np.tanh(marker - 2)
            - 0.8 * (albumin - 3.8) - 0.7 * treated * (stage >= 3))
    life = rng.exponential(1.0, n) ** (1 / 1.3) * 48 * np.exp(-risk / 1.3)
    follow = rng.uniform(6, 90, n)
    time = np.minimum(life, follow)
    event = life <= follow
    x = np.column_stack([age, stage, marker, albumin, treated, noise])
    return x.astype(np.float32), time.astype(np.float32), event


def cox_loss(score, time, event):
    """Negative log partial likelihood (Breslow)."""
    order = torch.argsort(time)
    score, event = score[order], event[order]
    log_risk = torch.logcumsumexp(score, dim=0)
    return -((score - log_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(score, time, event):
    """Share of comparable pairs in which the earlier death has the higher risk."""
    good = pairs = 0.0
    for i in np.flatnonzero(event):
        later = time > time[i]
        pairs += later.sum()
        good += (score[i] > score[later]).sum() + 0.5 * (score[i] == score[later]).sum()
    return good / pairs


class RiskNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, 48), nn.SELU(), nn.AlphaDropout(0.1),
            nn.Linear(48, 24), nn.SELU(), nn.Linear(24, 1, bias=False),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class Run:
    def __init__(self, lr=2e-3, batch=256, epochs=40):
        x, time, event = cohort()
        rng = np.random.default_rng(0)
        idx = rng.permutation(len(x))
        self.tr, self.va, self.te = idx[:3500], idx[3500:4250], idx[4250:]
        mean, std = x[self.tr].mean(0), x[self.tr].std(0)
        self.x = torch.from_numpy((x - mean) / std)
        self.time, self.event = time, event
        self.t = torch.from_numpy(time)
        self.e = torch.from_numpy(event).float()
        self.model = RiskNet(x.shape[1])
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-2)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=15, gamma=0.4)
        self.batch, self.epochs = batch, epochs

    def epoch(self):
        self.model.train()
        order = torch.from_numpy(self.tr)[torch.randperm(len(self.tr))]
        losses = []
        for idx in order.split(self.batch):
            self.opt.zero_grad()
            loss = cox_loss(self.model(self.x[idx]), self.t[idx], self.e[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
            self.opt.step()
            losses.append(loss.item())
        self.sched.step()
        return float(np.mean(losses))

    @torch.no_grad()
    def score(self, idx):
        self.model.eval()
        s = self.model(self.x[idx])
        loss = cox_loss(s, self.t[idx], self.e[idx]).item()
        return loss, concordance(s.numpy(), self.time[idx], self.event[idx])

    def fit(self, folder):
        path = os.path.join(folder, "best.pt")
        best = float("inf")
        print(f"{self.event.mean():.2f} of the patients have an observed event")
        for epoch in range(1, self.epochs + 1):
            train_loss = self.epoch()
            val_loss, c = self.score(self.va)
            if val_loss < best:
                best = val_loss
                torch.save({"model": self.model.state_dict(), "epoch": epoch}, path)
            if epoch % 4 == 0 or epoch == 1:
                print(f"epoch {epoch:2d}  train loss {train_loss:.4f}  val loss {val_loss:.4f}  val c-index {c:.4f}")
        ckpt = torch.load(path, weights_only=True)
        self.model.load_state_dict(ckpt["model"])
        print(f"best epoch {ckpt['epoch']}: test c-index {self.score(self.te)[1]:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        Run().fit(folder)
