from job import net, splits, triangular
from trueloop import Recipe, Tensors

recipe = Recipe(
    name="triangular", model=net, data=lambda request: tuple(Tensors(*part) for part in splits()), schedule=triangular, warmup=8,
    optimizer="momentum", lr=0.2, epochs=5, batch=32, order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
