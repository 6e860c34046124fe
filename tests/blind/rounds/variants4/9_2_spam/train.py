import sys
from pathlib import Path

import pandas as pd
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score
from torch import nn


def read(folder, name):
    df = pd.read_csv(folder / f"{name}.tsv", sep="\t", keep_default_na=False)
    return df["message"].tolist(), (df["label"] == "spam").astype(int).tolist()


class SpamFilter(nn.Module):
    def __init__(self, n_terms, hidden=24):
        super().__init__()
        self.linear = nn.Linear(n_terms, 1)
        self.hidden = nn.Linear(n_terms, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return (self.linear(x) + self.out(torch.relu(self.hidden(x)))).squeeze(1)


def dense(vectorizer, texts):
    return torch.tensor(vectorizer.transform(texts).toarray(), dtype=torch.float32).log1p()


def f1(model, x, y):
    model.eval()
    with torch.no_grad():
        return f1_score(y.int().numpy(), (model(x) > 0).int().numpy())


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(33)
    texts, labels = read(folder, "train")
    v_texts, v_labels = read(folder, "valid")
    vectorizer = CountVectorizer(min_df=2).fit(texts)
    x, vx = dense(vectorizer, texts), dense(vectorizer, v_texts)
    y, vy = torch.tensor(labels).float(), torch.tensor(v_labels).float()
    model = SpamFilter(x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    loss_fn = nn.BCEWithLogitsLoss()
    step, n = 0, len(y)
    for epoch in range(8):
        model.train()
        perm = torch.randperm(n)
        for i in range(0, n, 32):
            rows = perm[i:i + 32]
            opt.zero_grad()
            loss = loss_fn(model(x[rows]), y[rows])
            loss.backward()
            opt.step()
            step += 1
        if epoch % 2:
            print(f"step {step} loss {loss.item():.4f} spam F1 {f1(model, vx, vy):.4f}")
    print(f"spam F1 {f1(model, vx, vy):.4f}")


if __name__ == "__main__":
    main()
