"""Can a model be cut into the stages of a pipeline? Asked of the first micro-batch, before anything is trained."""

from torch import Tensor, nn

from trueloop.data.source import Batch
from trueloop.engine.batches import Batches
from trueloop.engine.call_model import call_model
from trueloop.engine.recompute import blocks_of
from trueloop.engine.stream_batches import StreamBatches
from trueloop.errors import BadRecipe
from trueloop.measure.model import drops, keeps_statistics, restored_buffers
from trueloop.measure.randomness import fence
from trueloop.parallel.stages import Stages, find_break, find_early_draws
from trueloop.parallel.strategy import Strategy
from trueloop.torch_private.tensors import tensor_version

__all__ = ["check_stages", "refuse_no_chain"]


def check_stages(model: nn.Module, batches: Batches | StreamBatches, strategy: Strategy) -> None:
    """Before `spread`. Raises BadRecipe. Checks nothing where there are no stages."""
    if strategy.stages == 1:
        return
    batch = batches.batch_at(0, 0) if batches.steps_per_epoch else None
    if batch is None:
        raise BadRecipe(
            "parallel=pp compares the model with its stages on the first batch, and a stream's batch cannot be made "
            "twice. Nothing was run: return a dataset, or use parallel=ddp."
        )
    refuse_no_chain(model, batches.micros(batch)[0], strategy.stages)


def refuse_no_chain(model: nn.Module, batch: Batch, stages: int, *, values: bool = True) -> None:
    """Raises BadRecipe. The model and the random states are left as they were. `values`: there are numbers to compare,
    not only shapes."""
    if any(map(keeps_statistics, model.modules())):
        raise _changing(model, "BatchNorm, or another norm with running statistics")
    split = Stages(model, blocks_of(model), stages)
    before = [(name, buffer, tensor_version(buffer)) for name, buffer in model.named_buffers()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        with fence(), restored_buffers(model):
            model.train()
            find_break(split, lambda: call_model(model, batch.inputs))
            if values and any(map(drops, model.modules())):
                find_early_draws(split, lambda: call_model(model, batch.inputs))
            after = dict(model.named_buffers())
            changed = [name for name, old, version in before if _has_changed(after.get(name), old, version)]
    finally:
        split.restore()
        for module, training in modes:
            module.training = training
    if changed:
        raise _changing(model, f"the buffer {changed[0]}, which its forward changes")


def _has_changed(now: Tensor | None, before: Tensor, version: int) -> bool:
    """A table that was made again for a longer input has a different shape, and is not a state."""
    return now is not None and now.shape == before.shape and (now is not before or tensor_version(now) != version)


def _changing(model: nn.Module, what: str) -> BadRecipe:
    return BadRecipe(
        f"parallel=pp keeps no state that a forward changes, and {type(model).__name__} has {what}. Nothing was run: "
        "use parallel=fsdp, or a norm without running statistics (LayerNorm, GroupNorm)."
    )
