"""Hotel search ranking with a pairwise logistic loss per query."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import softplus

COLUMNS = ["price", "stars", "review", "distance", "photos", "breakfast", "past_bookings"]


def search_log(n_queries, seed):
    rng = np.random.default_rng(seed)
    frames = []
    for q in range(n_queries):
        n = rng.integers(8, 15)
        stars = rng.integers(1, 6, n)
        review = np.clip(6 + 0.4 * stars + rng.normal(0, 1, n), 1, 10)
        distance = rng.gamma(2, 1.5, n)
        price = 35 * np.exp(0.28 * stars + rng.normal(0, 0.25, n) + rng.normal(0, 0.3))
        bookings = rng.poisson(np.exp(0.35 * review - 2))
        utility = (0.5 * stars + 0.5 * review - 0.013 * price - 0.35 * distance + 0.05 * bookings
                   + rng.normal(0, 0.6, n))
        grade = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9]))
        frames.append(pd.DataFrame({
            "query": q, "price": np.log(price), "stars": stars, "review": review, "distance": distance,
            "photos": rng.poisson(12, n), "breakfast": rng.random(n) < 0.5, "past_bookings": bookings,
            "grade": grade}))
    return pd.concat(frames, ignore_index=True)


class Scorer(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.mlp(x).squeeze(-1)


def ranknet(scores, grades):
    margin = scores[None, :] - scores[:, None]
    gap = grades[:, None] - grades[None, :]
    pairs = gap > 0
    return softplus(-margin[pairs]).mean()


def ndcg(scores, grades, k=5):
    gain = 2.0 ** grades - 1
    discount = 1 / np.log2(np.arange(2, k + 2))
    top = gain[np.argsort(-scores)][:k]
    ideal = np.sort(gain)[::-1][:k]
    return (top * discount[:len(top)]).sum() / (ideal * discount[:len(ideal)]).sum()


def to_queries(df, mu, sd):
    out = []
    for _, part in df.groupby("query"):
        x = ((part[COLUMNS].astype(float) - mu) / sd).to_numpy()
        out.append((torch.tensor(x, dtype=torch.float32), torch.tensor(part.grade.to_numpy())))
    return out


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    train_df, test_df = search_log(300, 6), search_log(120, 7)
    mu, sd = train_df[COLUMNS].astype(float).mean(), train_df[COLUMNS].astype(float).std()
    train, test = to_queries(train_df, mu, sd), to_queries(test_df, mu, sd)
    model = Scorer(len(COLUMNS))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        model.train()
        total, order = 0.0, rng.permutation(len(train))
        for start in range(0, len(order), 4):
            loss = sum(ranknet(model(train[i][0]), train[i][1]) for i in order[start:start + 4]) / 4
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / (len(order) / 4):.4f}")
    model.eval()
    with torch.no_grad():
        values = [ndcg(model(x).numpy(), g.numpy()) for x, g in test]
    print(f"ndcg_at_5={np.mean(values):.4f}")


if __name__ == "__main__":
    main()
