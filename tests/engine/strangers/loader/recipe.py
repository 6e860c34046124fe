from job import loaders, net

from trueloop import Recipe

recipe = Recipe(
    name="loader", model=net, data=lambda request: loaders(), task="multiclass", optimizer="adam", epochs=5, lr=0.01,
    log_every=1, save_every=5, trackers=(), device="cpu",
)
