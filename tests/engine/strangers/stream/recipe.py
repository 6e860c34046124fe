from job import Waves, held_out, net

from trueloop import Recipe, Splits, Tensors

recipe = Recipe(
    name="stream", model=net, data=lambda request: Splits(Waves(), Tensors(*held_out())), task="regression",
    optimizer="adam", steps=40, batch=8, lr=0.01, evaluate_every=10, log_every=1, save_every=5, trackers=(), device="cpu",
)
