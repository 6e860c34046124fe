import copy

import torch
from trueloop import Recipe, Splits, Tensors

import job


def read(request):
    return Splits(Tensors(job.inputs[:320]), Tensors(job.inputs[320:]))


def models():
    query = job.encoder()
    return {"query": query, "key": copy.deepcopy(query).requires_grad_(False)}


def step(loop, batch):
    query, key, queue = loop.models["query"], loop.models["key"], loop.memory.setdefault("queue", job.first_queue())
    job.follow(key, query)
    loss, keys = job.info_nce(query, key, batch.inputs, queue, loop.step)
    loop.update(loss, "optimizer")
    loop.memory["queue"] = torch.cat([queue, keys])[-job.QUEUE :]
    return loss


recipe = Recipe(
    name="moco", model=models, data=read, step=step, evaluate=lambda models, batch: {"retrieval": job.retrieval(models["query"], batch.inputs).mean()},
    metric="retrieval", optimizer="adam", lr=1e-2, epochs=5, batch=32, order="sequential", device="cpu", log_every=1, save_every=5, evaluation_batch=80, trackers=(),
)
