import logging
import sys
from pathlib import Path

import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
log = logging.getLogger("kidney")
LABS = ["creatinine", "urea", "potassium", "hemoglobin", "albumin"]
OTHER = ["age", "sbp", "diabetes"]


class Admissions(Dataset):
    def __init__(self, frame, scaler=None):
        self.scaler = scaler or StandardScaler().fit(frame[LABS + OTHER])
        self.x = torch.tensor(self.scaler.transform(frame[LABS + OTHER]), dtype=torch.float32)
        self.y = torch.tensor(frame["aki"].values, dtype=torch.float32)

    def __len__(self):
        return self.y.numel()

    def __getitem__(self, i):
        return dict(x=self.x[i], y=self.y[i])


class RiskModel(nn.Module):
    def __init__(self, n, hidden=40):
        super().__init__()
        self.linear = nn.Linear(n, 1)
        self.deep = nn.Sequential(nn.Linear(n, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return (self.linear(x) + self.deep(x)).squeeze(-1)


def auc(model, loader):
    model.eval()
    with torch.no_grad():
        pairs = [(model(b["x"]), b["y"]) for b in loader]
    return roc_auc_score(torch.cat([y for _, y in pairs]).numpy(), torch.cat([p for p, _ in pairs]).numpy())


def train(folder, epochs=10):
    torch.manual_seed(100)
    dev = pd.read_csv(folder / "development.csv")
    ext = pd.read_csv(folder / "validation.csv")
    log.info("development %d rows, validation %d rows, sites %s", len(dev), len(ext), sorted(ext.site.unique()))
    train_set = Admissions(dev)
    valid_set = Admissions(ext, train_set.scaler)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=512)
    model = RiskModel(len(LABS + OTHER))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        log.info("epoch %d auc %.4f", epoch, auc(model, valid_loader))
    return auc(model, valid_loader)


if __name__ == "__main__":
    log.info("final auc %.4f", train(Path(sys.argv[1])))
