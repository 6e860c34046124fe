"""A classifier whose optimizer was given the body and not the head."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    """Measurements of flowers, each class around a centre of its own."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
        self.labels = torch.randint(0, 4, (size,), generator=generator)
        self.features = centres[self.labels] + 0.8 * torch.randn(size, 16, generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.features[index], self.labels[index]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 4)

    def forward(self, features):
        return self.head(self.body(features))


def train(model, loss_function, optimizer, loader):
    model.train()
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(targets)
    return total / len(loader.dataset)


def validate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum().item()
    return correct / len(loader.dataset)


def fit(model, loss_function, optimizer, train_loader, valid_loader):
    for epoch in range(6):
        loss = train(model, loss_function, optimizer, train_loader)
        accuracy = validate(model, valid_loader)
        print(f"epoch {epoch}: loss {loss:.6f}, accuracy {accuracy:.4f}")


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Flowers(2000, seed=1), batch_size=50, shuffle=True)
    valid_loader = DataLoader(Flowers(500, seed=2), batch_size=100)
    model = Classifier()
    optimizer = torch.optim.Adam(model.body.parameters(), lr=1e-3)  # expect: parameters-not-in-optimizer
    fit(model, nn.CrossEntropyLoss(), optimizer, train_loader, valid_loader)


if __name__ == "__main__":
    main()
