"""A small convolutional network whose validation builds graphs that nobody uses."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Small pictures: a bright square in one of four corners, in noise."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (size,), generator=generator)
        self.images = 0.5 * torch.randn(size, 1, 12, 12, generator=generator)
        for image, label in zip(self.images, self.labels, strict=True):
            row, column = 6 * (int(label) // 2), 6 * (int(label) % 2)
            image[0, row + 1 : row + 5, column + 1 : column + 5] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
        )
        self.head = nn.Linear(64, 4)

    def forward(self, images):
        return self.head(self.body(images))


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
    for inputs, targets in loader:
        correct += (model(inputs).argmax(1) == targets).sum().item()  # expect: evaluation-without-no-grad
    return correct / len(loader.dataset)


def fit(model, loss_function, optimizer, train_loader, valid_loader):
    for epoch in range(6):
        loss = train(model, loss_function, optimizer, train_loader)
        accuracy = validate(model, valid_loader)
        print(f"epoch {epoch}: loss {loss:.6f}, accuracy {accuracy:.4f}")


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Shapes(2000, seed=1), batch_size=50, shuffle=True)
    valid_loader = DataLoader(Shapes(500, seed=2), batch_size=100)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(model, nn.CrossEntropyLoss(), optimizer, train_loader, valid_loader)


if __name__ == "__main__":
    main()
