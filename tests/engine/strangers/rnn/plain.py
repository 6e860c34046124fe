import torch
from job import Recurrent, cut, train


def main() -> list[float]:
    torch.manual_seed(0)
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        state = None
        for inputs, targets in cut(train):
            output, state = model(inputs, state)
            state = state.detach()
            loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
