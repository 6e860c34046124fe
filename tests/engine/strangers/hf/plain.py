import torch
from job import TokenClassifier, train
from torch.utils.data import DataLoader


def main() -> list[float]:
    torch.manual_seed(0)
    model = TokenClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        for batch in DataLoader(train, batch_size=32):
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
