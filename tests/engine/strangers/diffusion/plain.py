import copy

import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    model = job.Denoiser()
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for step in range(50):
        loss = job.loss(model, job.points[step % 10 * 32 :][:32], step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), model.parameters()):
                mean.lerp_(now, 0.1)
        history.append(loss.item())
    with torch.no_grad():
        print("ema valid", job.loss(average, job.points[320:], 10_000).item())
    return history
