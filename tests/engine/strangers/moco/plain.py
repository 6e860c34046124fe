import copy

import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    query = job.encoder()
    key, queue = copy.deepcopy(query).requires_grad_(False), job.first_queue()
    optimizer = torch.optim.Adam(query.parameters(), lr=1e-2)
    history = []
    for step in range(50):
        job.follow(key, query)
        loss, keys = job.info_nce(query, key, job.inputs[step % 10 * 32 :][:32], queue, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue = torch.cat([queue, keys])[-job.QUEUE :]
        history.append(loss.item())
    return history
