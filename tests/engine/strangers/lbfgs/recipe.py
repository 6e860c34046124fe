import torch
from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.x[:160], job.y[:160]), Tensors(job.x[160:], job.y[160:]))


def optimizers(model):
    return {"optimizer": torch.optim.LBFGS(model.parameters(), lr=0.5, **job.OPTIONS)}


def step(loop, batch):
    def closure():
        loop.optimizers["optimizer"].zero_grad()
        loss = job.loss(loop.model(batch.inputs), batch.targets)
        loss.backward()
        return loss

    return loop.optimizers["optimizer"].step(closure)


recipe = Recipe(
    name="lbfgs", model=job.network, data=read, task="regression", step=step, optimizers=optimizers,
    epochs=30, batch=160, order="sequential", device="cpu", log_every=1, save_every=5, trackers=(),
)
