"""A regression as it should be: clipping, decoupled decay and a schedule over all steps."""

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
        self.prices = (self.features @ weights + 0.5 * self.features[:, 0].abs() + noise).unsqueeze(1)

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


def train(model, loss_function, optimizer, schedule, loader):
    model.train()
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += loss.item() * len(targets)
    return total / len(loader.dataset)


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in loader:
            total += (model(inputs) - targets).abs().sum().item()
    return total / len(loader.dataset)


def fit(model, loss_function, optimizer, train_loader, valid_loader, schedule, epochs):
    for epoch in range(epochs):
        loss = train(model, loss_function, optimizer, schedule, train_loader)
        error = validate(model, valid_loader)
        print(f"epoch {epoch}: loss {loss:.6f}, mean error {error:.4f}")


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Houses(2000, seed=1), batch_size=50, shuffle=True)
    valid_loader = DataLoader(Houses(500, seed=2), batch_size=100)
    model = PriceModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    epochs = 6
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(train_loader))
    fit(model, nn.MSELoss(), optimizer, train_loader, valid_loader, schedule, epochs)


if __name__ == "__main__":
    main()
