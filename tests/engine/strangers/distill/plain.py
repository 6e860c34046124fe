import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    model = job.student()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for step in range(50):
        rows = slice(step % 10 * 32, step % 10 * 32 + 32)
        loss = job.losses(model(job.inputs[rows]), job.inputs[rows], job.labels[rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history
