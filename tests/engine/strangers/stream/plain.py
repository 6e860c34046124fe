import torch
from job import Waves, net
from torch.utils.data import DataLoader


def main() -> list[float]:
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _, (inputs, targets) in zip(range(40), DataLoader(Waves(), batch_size=8)):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
