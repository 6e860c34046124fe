"""Batch normalization in training mode got one value per channel, which has no variance."""

from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import layer_input
from trueloop.crash.scene import Scene

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    layer, sign = scene.layer, "Expected more than 1 value per channel when training"
    if sign not in scene.message or layer is None or not isinstance(layer.given, Tensor):
        return None
    message = (
        f"`{layer.name}` ({type(layer.module).__name__}) is in training mode and got {described(layer.given)}: "
        "one value per channel has no variance."
    )
    short = _last_batch(scene) if layer.given.shape[0] == 1 else None
    if short is not None:
        name, samples, batch = short
        detail = f"`{name}` has {samples} samples in batches of {batch}: the last batch has only one."
        return scene.explanation(message, (detail,), f"Build `{name}` with drop_last=True, or change the batch size.")
    fix = "Train on batches of at least 2 samples. To run the model on a single sample, call model.eval() first."
    return scene.explanation(message, layer_input(scene, layer)[1].lines, fix)


def _last_batch(scene: Scene) -> tuple[str, int, int] | None:
    """The loader whose last batch has one sample: its name, samples and batch size."""
    for step in scene.users:
        for name, value in list(step.locals.items()):
            if isinstance(value, DataLoader) and value.batch_size and not value.drop_last and value.batch_size > 1:
                try:
                    samples = len(value.sampler)  # type: ignore[arg-type]
                except TypeError:  # a stream has no length
                    continue
                if samples % value.batch_size == 1:
                    return name, samples, value.batch_size
    return None
