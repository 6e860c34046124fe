from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.tokens[:320], job.labels[:320]), Tensors(job.tokens[320:], job.labels[320:]))


def step(loop, batch):
    loss = job.loss(loop.model(batch.inputs), batch.targets)
    loop.backward(loss, "embedding", retain_graph=True)
    loop.backward(loss, "body")
    loop.apply("embedding")
    loop.apply("body")
    return loss


recipe = Recipe(
    name="two_optimizers", model=job.Net, data=read, task="multiclass", step=step, optimizers=job.optimizers, schedules=job.schedules,
    epochs=5, batch=32, order="sequential", device="cpu", log_every=1, save_every=5, trackers=(),
)
