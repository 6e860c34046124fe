import torch
import torch.nn.functional as F
from job import Net, inputs, labels


def main() -> list[float]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.blocks.requires_grad_(False)
    losses, best, flat = [], float("inf"), 0
    for epoch in range(1, 13):
        for rows in torch.arange(240).split(48):
            loss = F.cross_entropy(model(inputs[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            valid = F.cross_entropy(model(inputs[240:]), labels[240:]).item()
        flat = 0 if valid < 0.99 * best else flat + 1
        best = min(best, valid)
        if flat >= 2 and epoch > 4:
            break
        if epoch <= 3:
            model.blocks[3 - epoch].requires_grad_(True)
    return losses
