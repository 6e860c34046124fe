from job import VOCABULARY, Net, splits
from trueloop import Facts, Recipe, Splits, Tensors


def read(request):
    return Splits(*(Tensors(*part) for part in splits()), facts=Facts(vocabulary=VOCABULARY, ignore=-100))


recipe = Recipe(
    name="tokens", model=Net, data=read, task="language", epochs=6, batch=32, accumulate=4, lr=1e-2,
    order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
