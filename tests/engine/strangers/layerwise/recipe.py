from job import Net, decays, depth, splits
from trueloop import Recipe, Tensors


def groups(model):
    keys = sorted({(depth(name), decays(name)) for name, _ in model.named_parameters()})
    return [
        {"params": [p for name, p in model.named_parameters() if (depth(name), decays(name)) == key], "lr_scale": 0.7 ** key[0],
         "weight_decay": 0.1 if key[1] else 0.0, "name": f"depth{key[0]}" + ("" if key[1] else "-no-decay")}
        for key in keys
    ]  # fmt: skip


recipe = Recipe(
    name="layerwise", model=Net, data=lambda request: tuple(Tensors(*part) for part in splits()), groups=groups, epochs=5, batch=32,
    lr=1e-2, order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
