import torch

import job


def main() -> list[float]:
    torch.manual_seed(0)
    model = job.network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, **job.OPTIONS)

    def closure():
        optimizer.zero_grad()
        loss = job.loss(model(job.x[:160]), job.y[:160])
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(30)]
