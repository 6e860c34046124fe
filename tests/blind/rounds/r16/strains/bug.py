"""Identify bacterial strains from mass spectra (60 strains)."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

N_STRAINS, N_BINS = 60, 120


def simulate(per_strain=40):
    g = torch.Generator().manual_seed(99)
    base = torch.rand(N_BINS, generator=g) * 0.3
    fingerprints = base + (torch.rand(N_STRAINS, N_BINS, generator=g) < 0.1).float() * torch.rand(N_STRAINS, N_BINS, generator=g)
    labels = torch.arange(N_STRAINS).repeat_interleave(per_strain)
    gain = 0.7 + 0.6 * torch.rand(len(labels), 1, generator=g)
    spectra = fingerprints[labels] * gain + 0.12 * torch.randn(len(labels), N_BINS, generator=g)
    return spectra, labels


class StrainClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(N_BINS, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(64, N_STRAINS)

    def forward(self, x):
        x = self.features(x)
        return torch.softmax(self.classifier(x), dim=1)


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    total_loss = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        total_loss += loss.item() * inputs.size(0)
    return total_loss / len(loader.dataset)


def validate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, targets in loader:
            _, predicted = torch.max(model(inputs), 1)
            correct += (predicted == targets).sum().item()
    return correct / len(loader.dataset)


def main():
    torch.manual_seed(1)
    spectra, labels = simulate()
    ds = TensorDataset(spectra / 0.25, labels)
    train_set, test_set = random_split(ds, [1900, len(ds) - 1900])
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)
    model = StrainClassifier()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, 11):
        loss = train_one_epoch(model, train_loader, criterion, optimizer)
        if epoch % 2 == 0:
            print(f"Epoch {epoch}: loss={loss:.4f} acc={validate(model, test_loader):.4f}")
    print(f"Test accuracy: {validate(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
