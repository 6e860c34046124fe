import torch
from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.points[:320]), Tensors(job.points[320:]))


def optimizers(models):
    return {name: torch.optim.Adam(models[name].parameters(), lr=1e-2, betas=(0.5, 0.9)) for name in models}


def step(loop, batch):
    generator, critic = loop.models["generator"], loop.models["critic"]
    fake = generator(job.noise(len(batch.inputs), loop.step))
    loss_c = job.critic_loss(critic, batch.inputs, fake)
    loop.update(loss_c, "critic")
    loss = job.generator_loss(critic, fake)
    loop.update(loss, "generator")
    return {"loss": loss, "critic": loss_c}


def evaluate(models, batch):
    return {"distance": job.distance(models["generator"], batch.inputs)}


recipe = Recipe(
    name="gan", model=job.networks, data=read, step=step, optimizers=optimizers, evaluate=evaluate, metric="distance", lower_is_better=("distance",),
    epochs=4, batch=32, order="sequential", device="cpu", log_every=1, save_every=5, evaluation_batch=80, trackers=(),
)
