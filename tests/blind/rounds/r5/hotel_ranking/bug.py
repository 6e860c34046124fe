import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DOCS, FEATURES = 10, 8


def queries(n, rng, weights):
    """Each query has its own price level; relevance is relative to the other offers of the query."""
    level = rng.normal(0, 3, (n, 1, 1))
    x = rng.normal(0, 1, (n, DOCS, FEATURES))
    utility = np.tanh(x @ weights) + 0.5 * x[..., 0] * x[..., 1] + rng.normal(0, 0.2, (n, DOCS))
    rank = utility.argsort(1).argsort(1)
    gain = np.clip(rank - (DOCS - 5), 0, None)
    x[..., :3] += level
    return torch.tensor(x, dtype=torch.float32), torch.tensor(gain, dtype=torch.float32)


class Scorer(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        relative = x - x.mean(1, keepdim=True)
        return self.net(relative).squeeze(-1)


def listnet(scores, gains):
    target = torch.softmax(gains, dim=1)
    return -(target * torch.log_softmax(scores, dim=1)).sum(1).mean()


def ndcg(scores, gains, k=5):
    discount = 1 / torch.log2(torch.arange(2, k + 2).float())
    order = scores.argsort(1)[:, :k]
    dcg = ((2 ** gains.gather(1, order) - 1) * discount).sum(1)
    ideal = ((2 ** gains.sort(1, descending=True).values[:, :k] - 1) * discount).sum(1)
    return (dcg / ideal).mean().item()


def main():
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    weights = rng.normal(0, 0.7, FEATURES)
    x_train, g_train = queries(1000, rng, weights)
    x_valid, g_valid = queries(300, rng, weights)
    loader = DataLoader(TensorDataset(x_train, g_train), batch_size=20, shuffle=True)
    model = Scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, gains in loader:
            optimizer.zero_grad()
            loss = listnet(model(x), gains)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            valid = ndcg(model(x_valid), g_valid)
        print(f"epoch {epoch} loss {total / len(loader):.4f} valid ndcg@5 {valid:.3f}")
    print(f"valid ndcg@5 {valid:.3f}")


if __name__ == "__main__":
    main()
