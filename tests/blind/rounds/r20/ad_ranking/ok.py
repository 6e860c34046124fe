"""Listwise learning to rank for a shop's search page."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DOCS = 16


def generate(num_queries, seed):
    rng = np.random.default_rng(seed)
    head = rng.normal(0, 1.5, (num_queries, 1))
    quality = rng.normal(0, 1, (num_queries, DOCS))
    fresh = rng.normal(0, 1, (num_queries, DOCS))
    price = rng.normal(0, 1, (num_queries, DOCS))
    text = rng.normal(0, 1, (num_queries, DOCS))
    bm25 = text - 2.0 * head + rng.normal(0, 0.3, (num_queries, DOCS))
    sales = quality - 1.6 * head + rng.normal(0, 0.4, (num_queries, DOCS))
    utility = 1.1 * text + 0.9 * quality - 0.5 * np.abs(price) + 0.3 * fresh * quality
    engagement = utility + 2.5 * head + rng.normal(0, 0.3, (num_queries, DOCS))
    order = (utility + rng.normal(0, 0.3, utility.shape)).argsort(1).argsort(1)
    grade = np.digitize(order, [8, 11, 13, 15]).astype(np.float32)
    feats = np.stack([bm25, sales, fresh, price, rng.normal(0, 1, bm25.shape), rng.normal(0, 1, bm25.shape)], -1)
    return feats.astype(np.float32), engagement.astype(np.float32), grade


class QueryGroups(Dataset):
    def __init__(self, feats, engagement, grade, mean=None, std=None):
        self.mean = feats.mean((0, 1)) if mean is None else mean
        self.std = feats.std((0, 1)) if std is None else std
        self.x = torch.from_numpy((feats - self.mean) / self.std)
        self.e = torch.from_numpy(engagement)
        self.g = torch.from_numpy(grade)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.e[i], self.g[i]


class Scorer(nn.Module):
    def __init__(self, n_feat, hidden=48):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(n_feat, hidden), nn.ReLU(), nn.Dropout(0.05),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.mlp(x).squeeze(-1)


def listnet_loss(scores, engagement, temperature=1.0):
    """Cross entropy between the top-one distributions of the label and of the model."""
    target = F.softmax(engagement / temperature, dim=1)
    logp = F.log_softmax(scores, dim=1)
    return -(target * logp).sum() / scores.size(0)


def ndcg_at_k(scores, grade, k=5):
    disc = 1.0 / torch.log2(torch.arange(2, k + 2).float())
    top = scores.topk(k, dim=1).indices
    gain = (2 ** grade.gather(1, top) - 1) * disc
    ideal = (2 ** grade.topk(k, dim=1).values - 1) * disc
    return (gain.sum(1) / ideal.sum(1)).mean().item()


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    return ndcg_at_k(model(data.x), data.g)


class Trainer:
    def __init__(self, model, train, valid, lr=2e-3, batch_queries=32, epochs=13):
        self.model, self.valid, self.epochs = model, valid, epochs
        self.loader = DataLoader(train, batch_size=batch_queries, shuffle=True, drop_last=True)
        self.opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=1e-5)
        self.best = (-1.0, None)

    def fit(self):
        for epoch in range(self.epochs):
            self.model.train()
            total = 0.0
            for x, e, _ in self.loader:
                loss = listnet_loss(self.model(x), e)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item()
            score = evaluate(self.model, self.valid)
            if score > self.best[0]:
                self.best = (score, {k: v.clone() for k, v in self.model.state_dict().items()})
            if epoch % 4 == 0:
                print(f"epoch {epoch:02d} | loss {total / len(self.loader):.4f} | valid ndcg@5 {score:.4f}")
        self.model.load_state_dict(self.best[1])
        return self


def main():
    torch.manual_seed(13)
    train = QueryGroups(*generate(3000, 0))
    valid = QueryGroups(*generate(400, 1), mean=train.mean, std=train.std)
    test = QueryGroups(*generate(1000, 2), mean=train.mean, std=train.std)
    model = Scorer(train.x.size(-1))
    print(f"untrained ndcg@5 {evaluate(model, test):.4f}")
    Trainer(model, train, valid).fit()
    print(f"test_ndcg5 {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main()
