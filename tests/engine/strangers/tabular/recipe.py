from job import net, splits
from trueloop import Recipe, Tensors

recipe = Recipe(
    name="tabular", model=net, data=lambda request: tuple(Tensors(*part) for part in splits()), epochs=5, batch=32, lr=1e-2,
    order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
