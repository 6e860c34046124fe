import torch.nn.functional as F
from job import drawn, labels, mix, net, points

from trueloop import Recipe, Splits, Tensors


def step(loop, batch):
    inputs, targets = mix(batch.inputs, batch.targets, *drawn(loop.step, len(batch.inputs)))
    loss = F.cross_entropy(loop.model(inputs), targets)
    loop.update(loss)
    return loss


recipe = Recipe(
    name="mixup", model=net, data=lambda request: Splits(Tensors(points[:240], labels[:240]), Tensors(points[240:], labels[240:])),
    step=step, task="multiclass", optimizer="adam", order="sequential", batch=48, epochs=8, lr=0.01,
    log_every=1, save_every=5, trackers=(), device="cpu",
)
