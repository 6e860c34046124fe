import torch
from job import Net, parts, splits, weight
from torch.utils.data import DataLoader


def main() -> list[float]:
    loader = DataLoader(splits()[0], batch_size=32)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for epoch in range(5):
        for inputs, targets in loader:
            label, value = parts(model(inputs), targets)
            loss = (label + weight(epoch) * value).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
