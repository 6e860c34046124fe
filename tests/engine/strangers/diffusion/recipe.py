from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.points[:320]), Tensors(job.points[320:]))


def step(loop, batch):
    loss = job.loss(loop.model, batch.inputs, loop.step)
    loop.update(loss, "optimizer")
    return loss


recipe = Recipe(
    name="diffusion", model=job.Denoiser, data=read, step=step, evaluate=lambda model, batch: {"loss": job.loss(model, batch.inputs, 10_000)},
    ema=0.9, optimizer="adam", lr=1e-2, epochs=5, batch=32, order="sequential", device="cpu", log_every=1, save_every=5, evaluation_batch=80, trackers=(),
)
