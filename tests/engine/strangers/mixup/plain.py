import torch
from job import drawn, labels, mix, net, points


def main() -> list[float]:
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        for rows in torch.arange(240).split(48):
            inputs, targets = mix(points[rows], labels[rows], *drawn(len(losses), len(rows)))
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
