"""A regression whose predictions [B, 1] meet targets [B]."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Houses(Dataset):
    """Features of houses and their prices, in units of the spread."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.features = torch.randn(size, 8, generator=generator)
        weights = torch.tensor([1.0, -0.5, 0.3, 0.0, 0.8, -0.2, 0.1, 0.4])
        noise = 0.1 * torch.randn(size, generator=generator)
        self.prices = self.features @ weights + 0.5 * self.features[:, 0].abs() + noise

    def __len__(self):
        return len(self.prices)

    def __getitem__(self, index):
        return self.features[index], self.prices[index]


class PriceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, features):
        return self.layers(features)


def train(model, loss_function, optimizer, loader):
    model.train()
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)  # expect: shapes-broadcast-in-loss
        loss.backward()
        optimizer.step()
        total += loss.item() * len(targets)
    return total / len(loader.dataset)


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in loader:
            total += (model(inputs)[:, 0] - targets).abs().sum().item()
    return total / len(loader.dataset)


def fit(model, loss_function, optimizer, train_loader, valid_loader):
    for epoch in range(6):
        loss = train(model, loss_function, optimizer, train_loader)
        error = validate(model, valid_loader)
        print(f"epoch {epoch}: loss {loss:.6f}, mean error {error:.4f}")


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Houses(2000, seed=1), batch_size=50, shuffle=True)
    valid_loader = DataLoader(Houses(500, seed=2), batch_size=100)
    model = PriceModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(model, nn.MSELoss(), optimizer, train_loader, valid_loader)


if __name__ == "__main__":
    main()
