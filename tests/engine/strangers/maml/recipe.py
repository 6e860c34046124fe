import torch
from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.x[:160], job.y[:160]), Tensors(job.x[160:], job.y[160:]))


def step(loop, batch):
    loss = job.loss(loop.model, batch.inputs, batch.targets)
    loop.update(loss, "optimizer")
    return loss


@torch.enable_grad()
def evaluate(model, batch):
    return {"loss": job.loss(model, batch.inputs, batch.targets)}


recipe = Recipe(
    name="maml", model=job.network, data=read, step=step, evaluate=evaluate,
    optimizer="adam", lr=1e-2, epochs=5, batch=16, order="sequential", device="cpu", log_every=1, save_every=5, trackers=(),
)
