from job import TokenClassifier, train, valid

from trueloop import Recipe

recipe = Recipe(
    name="hf", model=TokenClassifier, data=lambda request: (train, valid), optimizer="adam", order="sequential", batch=32,
    epochs=5, lr=0.01, log_every=1, save_every=5, trackers=(), device="cpu",
)
