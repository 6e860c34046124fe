"""A GPU kernel found an index or a label out of range and stopped."""

from collections.abc import Iterator

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.scene import Scene

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    """After such an assert, tensors on the device can no longer be read. Shapes and CPU tensors still can."""
    if "device-side assert triggered" not in scene.message:
        return None
    return scene.explanation(
        "A GPU kernel found a value out of range. Almost always it is a label outside the classes, or an index "
        "outside an "
        "embedding. CUDA runs asynchronously, so the line shown may come after the one at fault.",
        tuple(dict.fromkeys(_ranges(scene)))[:6],
        "Run once on the CPU, or with CUDA_LAUNCH_BLOCKING=1 in the environment: both stop at the line at fault.",
    )


def _ranges(scene: Scene) -> Iterator[str]:
    for step in scene.users:
        for name, value in list(step.locals.items()):
            integers = isinstance(value, Tensor) and not value.is_floating_point() and not value.is_complex()
            if integers and value.device.type == "cpu" and value.numel():
                yield f"`{name}`, {described(value)}, holds values from {int(value.min())} to {int(value.max())}."
    for _, model in scene.modules():
        for path, module in model.named_modules():
            if isinstance(module, nn.Embedding):
                yield f"`{path or type(model).__name__}` is an embedding of {module.num_embeddings} rows."
    for step in scene.beyond:
        scores = step.locals.get("input")
        if step.function in ("cross_entropy", "nll_loss") and isinstance(scores, Tensor) and scores.ndim > 1:
            yield f"The predictions are {described(scores)}: labels must be 0 to {scores.shape[1] - 1}."
