import argparse
import random
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUMERIC = ["claim_amount", "vehicle_age", "policy_months", "prior_claims", "report_delay_days", "handling_cost"]
CATEGORICAL = ["region", "incident_type"]
TARGET = "fraud"


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Preprocessor:
    def fit(self, df):
        logged = self._log(df)
        self.mean = logged.mean()
        self.std = logged.std()
        self.levels = {c: sorted(df[c].unique()) for c in CATEGORICAL}
        return self

    def _log(self, df):
        out = df[NUMERIC].astype(float).copy()
        for c in ("claim_amount", "handling_cost"):
            out[c] = np.log1p(out[c])
        return out

    def transform(self, df):
        num = ((self._log(df) - self.mean) / self.std).to_numpy(np.float32)
        cats = [pd.Categorical(df[c], categories=self.levels[c]).codes + 1 for c in CATEGORICAL]
        return torch.from_numpy(num), torch.from_numpy(np.stack(cats, 1).astype(np.int64))


class ClaimNet(nn.Module):
    def __init__(self, n_num, cardinalities, width=48):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(c + 1, 4) for c in cardinalities)
        self.body = nn.Sequential(
            nn.Linear(n_num + 4 * len(cardinalities), width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, num, cat):
        parts = [emb(cat[:, i]) for i, emb in enumerate(self.embeds)]
        return self.body(torch.cat([num] + parts, dim=1)).squeeze(1)


@torch.no_grad()
def score(model, num, cat, y):
    model.eval()
    return roc_auc_score(y.numpy(), torch.sigmoid(model(num, cat)).numpy())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    root = parser.parse_args().data
    seed_everything(11)

    train_df = pd.read_csv(root / "claims_train.csv")
    valid_df = pd.read_csv(root / "claims_valid.csv")
    prep = Preprocessor().fit(train_df)
    xn, xc = prep.transform(train_df)
    vn, vc = prep.transform(valid_df)
    y = torch.tensor(train_df[TARGET].to_numpy(), dtype=torch.float32)
    vy = torch.tensor(valid_df[TARGET].to_numpy(), dtype=torch.float32)

    model = ClaimNet(len(NUMERIC), [len(prep.levels[c]) for c in CATEGORICAL])
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    loader = DataLoader(TensorDataset(xn, xc, y), batch_size=128, shuffle=True)

    for epoch in range(10):
        model.train()
        running = 0.0
        for bn, bc, by in loader:
            opt.zero_grad()
            loss = loss_fn(model(bn, bc), by)
            loss.backward()
            opt.step()
            running += loss.item() * len(by)
        print(f"epoch {epoch:2d}  loss {running / len(y):.4f}  valid auc {score(model, vn, vc, vy):.4f}")
    print(f"final valid auc {score(model, vn, vc, vy):.4f}")


if __name__ == "__main__":
    main()
