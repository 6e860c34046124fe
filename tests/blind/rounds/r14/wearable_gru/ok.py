"""Classify wearable recordings (steady walk vs. drifting gait) with a GRU."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

SEQ_LEN, CHANNELS, BATCH = 30, 3, 32


def record_gait(n):
    t = torch.linspace(0, 6.28, SEQ_LEN)
    phase = torch.rand(n, 1) * 6.28
    base = torch.sin(3 * t + phase)
    label = torch.randint(0, 2, (n,))
    steps = torch.randn(n, SEQ_LEN) * 0.4
    steps = steps + torch.where(label == 1, 0.16, -0.16).unsqueeze(1)
    accel = torch.stack([base + 0.3 * torch.randn(n, SEQ_LEN), steps, torch.randn(n, SEQ_LEN)], dim=2)
    return accel, label


class GaitClassifier(nn.Module):
    def __init__(self, hidden_size=24, num_classes=2):
        super().__init__()
        self.gru = nn.GRU(CHANNELS, hidden_size, num_layers=1, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc(out[:, -1])


def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    seen, loss_sum = 0, 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * inputs.size(0)
        seen += inputs.size(0)
    return loss_sum / seen


@torch.no_grad()
def validate(model, loader):
    model.eval()
    correct, seen = 0, 0
    for inputs, targets in loader:
        correct += (model(inputs).argmax(1) == targets).sum().item()
        seen += targets.size(0)
    return correct / seen


if __name__ == "__main__":
    torch.manual_seed(21)
    data = TensorDataset(*record_gait(2400))
    train_set, val_set, test_set = random_split(data, [1600, 400, 400])
    train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=BATCH)
    test_loader = DataLoader(test_set, batch_size=BATCH)
    model = GaitClassifier()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(6):
        loss = train_one_epoch(model, train_loader, optimizer, criterion)
        print(f"Epoch {epoch + 1:2d} | loss {loss:.4f} | val acc {validate(model, val_loader):.3f}")
    print(f"test accuracy {validate(model, test_loader):.3f}")
