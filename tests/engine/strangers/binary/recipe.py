from job import net, splits
from trueloop import Recipe, Tensors

recipe = Recipe(
    name="binary", model=net, data=lambda request: tuple(Tensors(*part) for part in splits()), task="binary", metric="f1",
    epochs=5, batch=32, evaluation_batch=32, lr=1e-2, order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
