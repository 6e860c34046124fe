import copy

import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    model = job.network()
    target = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    places, buffer, losses = torch.zeros(job.ENVS, dtype=torch.long), torch.zeros(0, 5), []
    for step in range(60):
        rows, places = job.act(model, places, step)
        buffer = torch.cat([buffer, rows])[-job.CAPACITY :]
        if step % 10 == 0:
            target.load_state_dict(model.state_dict())
        loss = job.loss(model, target, job.sample(buffer, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
