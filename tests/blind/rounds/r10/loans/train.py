"""Probability of default for consumer loans: category embeddings + numeric columns."""
import json

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F

with open("config.json") as f:
    CFG = json.load(f)


def auc(score, label):
    rank = pd.Series(score).rank().to_numpy()
    pos = label == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


class Encoder:
    """Category codes (0 = unseen) and standardised numbers, fitted on the training table."""

    def __init__(self, table):
        self.codes = {c: {v: i + 1 for i, v in enumerate(sorted(table[c].unique()))}
                      for c in CFG["categorical"]}
        self.mean = table[CFG["numeric"]].mean()
        self.std = table[CFG["numeric"]].std()

    def sizes(self):
        return [len(c) + 1 for c in self.codes.values()]

    def __call__(self, table):
        cats = np.stack([table[c].map(m).fillna(0).to_numpy(np.int64)
                         for c, m in self.codes.items()], axis=1)
        nums = ((table[CFG["numeric"]] - self.mean) / self.std).to_numpy(np.float32)
        return torch.from_numpy(cats), torch.from_numpy(nums)


class LoanNet(nn.Module):
    def __init__(self, sizes, n_num):
        super().__init__()
        dims = [min(8, (s + 1) // 2) for s in sizes]
        self.tables = nn.ModuleList([nn.Embedding(s, d, sparse=True) for s, d in zip(sizes, dims)])
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        self.mlp = nn.Sequential(
            nn.Linear(sum(dims) + n_num, CFG["hidden"]), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(CFG["hidden"], CFG["hidden"] // 2), nn.ReLU(),
            nn.Linear(CFG["hidden"] // 2, 1),
        )

    def forward(self, cats, nums):
        emb = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        return self.mlp(torch.cat(emb + [nums], dim=1)).squeeze(1)


@torch.no_grad()
def predict(model, cats, nums):
    model.eval()
    return torch.cat([model(c, n) for c, n in zip(cats.split(1024), nums.split(1024))])


def main():
    torch.manual_seed(CFG["seed"])
    train, valid = pd.read_csv("train.csv"), pd.read_csv("valid.csv")
    encode = Encoder(train)
    cats, nums = encode(train)
    vcats, vnums = encode(valid)
    y = torch.tensor(train["defaulted"].to_numpy(), dtype=torch.float32)
    vy = torch.tensor(valid["defaulted"].to_numpy(), dtype=torch.float32)
    print(f"{len(y)} loans, default rate {y.mean():.3f}, columns {CFG['categorical'] + CFG['numeric']}")

    model = LoanNet(encode.sizes(), nums.shape[1])
    opt_dense = torch.optim.AdamW(model.mlp.parameters(), lr=CFG["lr"], weight_decay=1e-2)
    opt_emb = torch.optim.SparseAdam(list(model.tables.parameters()), lr=CFG["lr_embedding"])
    best, best_state = float("inf"), None
    for epoch in range(1, CFG["epochs"] + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(CFG["batch_size"]):
            opt_dense.zero_grad()
            opt_emb.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(cats[idx], nums[idx]), y[idx])
            loss.backward()
            opt_dense.step()
            opt_emb.step()
            total += loss.item() * len(idx)
        logit = predict(model, vcats, vnums)
        val_loss = F.binary_cross_entropy_with_logits(logit, vy).item()
        if val_loss < best:
            best = val_loss
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch:2d}  train loss {total / len(y):.4f}  val loss {val_loss:.4f}  "
              f"val AUC {auc(logit.numpy(), vy.numpy()):.4f}")

    model.load_state_dict(best_state)
    print(f"best val AUC {auc(predict(model, vcats, vnums).numpy(), vy.numpy()):.4f}")
    applicants = pd.read_csv("applications.csv")
    scores = torch.sigmoid(predict(model, *encode(applicants)))
    out = pd.DataFrame({"loan_id": applicants["loan_id"], "pd": scores.numpy().round(5)})
    out.to_csv("scores.csv", index=False)
    print(f"scored {len(out)} new applications, mean predicted default rate {out['pd'].mean():.3f}")


if __name__ == "__main__":
    main()
