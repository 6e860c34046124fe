"""K-fold cross validation with a fresh model per fold, early stopping on the best deep-copied state, class-imbalance
weights."""

import copy

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler

SEED = 31
FOLDS = 3


class MLP(nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_features, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Dropout(0.25),
            nn.Linear(32, 16),
            nn.ReLU(),
            nn.Linear(16, n_classes),
        )

    def forward(self, x):
        return self.net(x)


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience = patience
        self.best = float("inf")
        self.bad = 0
        self.state = None

    def __call__(self, value, model):
        if value < self.best - 1e-4:
            self.best, self.bad = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad > self.patience


def reset_weights(m):
    if hasattr(m, "reset_parameters"):
        m.reset_parameters()


def kfold_indices(n, k):
    order = torch.randperm(n)
    for fold in order.chunk(k):
        chosen = set(fold.tolist())
        yield [i for i in order.tolist() if i not in chosen], fold.tolist()


def make_data():
    rare = torch.rand(480) < 0.15
    y = torch.where(rare, 2, torch.randint(0, 2, (480,)))
    centres = torch.tensor([[1.5, 0.0, 0.0, 1.0], [-1.5, 0.5, 0.0, 0.0], [0.0, -1.5, 1.5, 0.0]])
    return centres[y] + torch.randn(480, 4), y


def run_fold(dataset, train_idx, val_idx, weights):
    labels = dataset.tensors[1][train_idx]
    sampler = WeightedRandomSampler((1.0 / torch.bincount(labels).float())[labels], len(labels))
    train_loader = DataLoader(Subset(dataset, train_idx), batch_size=32, sampler=sampler, drop_last=True)
    val_loader = DataLoader(Subset(dataset, val_idx), batch_size=64)
    model = MLP(4, 3)
    model.apply(reset_weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    weighted = nn.CrossEntropyLoss(weight=weights)
    stopper = EarlyStopping()
    for epoch in range(5):
        model.train()
        for xb, yb in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
        model.eval()
        val_loss = 0.0
        with torch.no_grad():
            for xb, yb in val_loader:
                val_loss += weighted(model(xb), yb).item() * len(xb)
        if stopper(val_loss / len(val_idx), model):
            break
    model.load_state_dict(stopper.state)
    model.eval()
    with torch.no_grad():
        hits = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in val_loader)
    return hits / len(val_idx), epoch


if __name__ == "__main__":
    torch.manual_seed(SEED)
    x, y = make_data()
    counts = torch.bincount(y).float()
    weights = counts.sum() / (len(counts) * counts)
    dataset = TensorDataset(x, y)
    scores = []
    for fold, (train_idx, val_idx) in enumerate(kfold_indices(len(dataset), FOLDS)):
        accuracy, last = run_fold(dataset, train_idx, val_idx, weights)
        scores.append(accuracy)
        print(f"fold {fold}: {accuracy:.3f} after {last + 1} epochs")
    print(f"mean {sum(scores) / len(scores):.3f}")
