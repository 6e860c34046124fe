import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    model = job.network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for step in range(50):
        rows = slice(step % 10 * 16, step % 10 * 16 + 16)
        loss = job.loss(model, job.x[rows], job.y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history
