from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.inputs[:320], job.labels[:320]), Tensors(job.inputs[320:], job.labels[320:]))


recipe = Recipe(
    name="distill", model=job.student, data=read, loss=lambda output, batch, state: job.losses(output, batch.inputs, batch.targets),
    metrics={"accuracy": job.accuracy}, metric="accuracy", optimizer="adam", lr=1e-2, epochs=5, batch=32, order="sequential",
    device="cpu", log_every=1, save_every=5, trackers=(),
)
