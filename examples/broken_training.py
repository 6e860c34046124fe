"""A student's script whose loss falls a little and whose accuracy stays poor. It runs without an error and has five
silent bugs.

trueloop check examples/broken_training.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Linear(64, 64), nn.Linear(64, 64)]
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = self.dropout(torch.relu(layer(x)))
        return torch.softmax(self.head(x), dim=1)


def blobs(count: int, seed: int) -> TensorDataset:
    """Ten clouds in 64 dimensions, far enough apart to be told from one another."""
    draw = torch.Generator().manual_seed(seed)
    centres = 1.5 * torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 10, (count,), generator=draw)
    return TensorDataset(centres[labels] + torch.randn(count, 64, generator=draw), labels)


def main() -> None:
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    training = DataLoader(blobs(2000, 1), batch_size=50, shuffle=True)
    validation = DataLoader(blobs(500, 2), batch_size=50)
    losses = []
    for epoch in range(3):
        for x, y in training:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        right = 0
        with torch.no_grad():
            for x, y in validation:
                right += int((model(x).argmax(1) == y).sum())
        print(f"epoch {epoch + 1}: loss {sum(losses[-40:]).item() / 40:.3f}, validation accuracy {right / 500:.3f}")


if __name__ == "__main__":
    main()
