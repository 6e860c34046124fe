from job import Vae, beta, parts, splits
from trueloop import Recipe, Tensors


def elbo(output, batch, state):
    reconstruction, kl = parts(output, batch.inputs)
    weight = beta(state.step, state.total_steps)
    return reconstruction + weight * kl, {"reconstruction": reconstruction, "kl": kl, "beta": weight}


recipe = Recipe(
    name="vae", model=Vae, data=lambda request: tuple(Tensors(part, part) for part in splits()), loss=elbo, epochs=5, batch=32, lr=1e-2,
    order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
