"""A recurrent network as it should be: two micro-batches per step, each counted with its share."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    """Noisy waves of four frequencies; the class is the frequency."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (size,), generator=generator)
        phase = 6.28 * torch.rand(size, 1, generator=generator)
        time = torch.arange(20.0)
        clean = torch.sin(phase + 0.3 * (1 + self.labels[:, None]) * time)
        self.waves = (clean + 0.1 * torch.randn(size, 20, generator=generator)).unsqueeze(-1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.waves[index], self.labels[index]


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(1, 32, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(32, 4)

    def forward(self, waves):
        _, hidden = self.recurrent(waves)
        return self.head(self.dropout(hidden[-1]))


def train(model, loss_function, optimizer, loader, accumulate=2):
    model.train()
    total = 0.0
    optimizer.zero_grad(set_to_none=True)
    for index, (inputs, targets) in enumerate(loader, 1):
        loss = loss_function(model(inputs), targets)
        (loss / accumulate).backward()
        total += loss.item() * len(targets)
        if index % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
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
    train_loader = DataLoader(Waves(2000, seed=1), batch_size=50, shuffle=True)
    valid_loader = DataLoader(Waves(500, seed=2), batch_size=100)
    model = Listener()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(model, nn.CrossEntropyLoss(), optimizer, train_loader, valid_loader)


if __name__ == "__main__":
    main()
