"""The result of one batch: loss, outputs, gradients and layer outputs; and the differences of two results."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.engine.layers import remove_after
from trueloop.engine.task_kind import Task
from trueloop.measure.model import restored_buffers
from trueloop.measure.randomness import fence
from trueloop.torch_private.modules import DropoutNd

__all__ = ["compute_result"]

ROUNDING: Final = 1e-4  # relative: float32 sums in a different order differ by about 1e-6 per layer
GRADIENT_ROUNDING: Final = 1e-3  # of a gradient, which collects the differences of the forward once more
Layers = Mapping[str, Tensor]  # the output of each
DRAWS: Final = "eval mode, in which the forward draws random numbers"
CANCELLED: Final = 1e-5  # of its layer's weight gradient: what is left of a bias that the next norm cancels is rounding
SMALL: Final = 1e-3  # parameters with a gradient below this share of the largest are compared on the scale of that


@dataclass(frozen=True)
class BatchResult:
    """In float32 or wider, on the host."""

    loss: float
    outputs: tuple[Tensor, ...]
    gradients: Mapping[str, Tensor]  # by parameter; those without a gradient are absent
    layers: Layers  # output of each layer at its first call, in the order in which they returned


@dataclass(frozen=True)
class ResultDifference:
    """Relative differences of two results."""

    loss: float
    outputs: float
    gradients: float
    worst: str  # the parameter with the largest gradient difference
    one: float  # the losses
    two: float

    @property
    def equal(self) -> bool:
        return self.loss <= ROUNDING and self.outputs <= ROUNDING and self.gradients <= GRADIENT_ROUNDING

    def sentence(self, first: str, second: str) -> str:
        """'the loss is 2.31 eager and 2.35 compiled'."""
        if self.loss > ROUNDING or not math.isfinite(self.loss):
            return f"the loss is {self.one:.6g} {first} and {self.two:.6g} {second}"
        if self.outputs > ROUNDING:
            differ = f"differ by {self.outputs:.2g} of their scale"
            return f"the loss is equal, but the outputs {first} and {second} {differ}"
        share = f"{self.gradients:.2g} of its scale"
        return f"loss and outputs are equal, but the gradient of {self.worst} differs by {share}"

    def agreement(self, first: str, second: str) -> str:
        """For two equal results: 'loss 2.31 eager and 2.31 compiled; ...'."""
        limits = f"relative difference of outputs at most {self.outputs:.0e}, of gradients {self.gradients:.0e}"
        return f"loss {self.one:.6g} {first} and {self.two:.6g} {second}; {limits}"

    def evidence(self) -> dict[str, object]:
        return {
            "losses": [self.one, self.two],
            "loss_difference": self.loss,
            "output_difference": self.outputs,
            "gradient_difference": self.gradients,
            "worst_gradient": self.worst,
        }


def disable_randomness(model: nn.Module, task: Task, batch: Batch) -> str:
    """Train mode without dropout; eval mode if the model still draws random numbers. Returns the mode in words."""
    model.train()
    for module in model.modules():
        if isinstance(module, DropoutNd):
            module.eval()

    def losses(seed: int) -> float:
        return compute_result(model, task, batch, seed=seed).loss

    first, second = losses(0), losses(1)
    if first == second or (math.isnan(first) and math.isnan(second)):
        return "train mode, dropout off"
    model.eval()
    return "eval mode" if losses(0) == losses(1) else DRAWS


def compute_result(
    model: nn.Module,
    task: Task,
    batch: Batch,
    *,
    call: Callable[[Any], Any] | None = None,
    around: AbstractContextManager[Any] | None = None,
    scale: float = 1.0,
    layers: bool = False,
    seed: int = 0,
) -> BatchResult:
    """`call`: called instead of the model (compiled); `scale`: loss scale of the backward, divided out afterwards. The
    model is left without gradients and with its buffers unchanged."""
    recorded: dict[str, Tensor] = {}
    model.zero_grad(set_to_none=True)
    with fence(seed), restored_buffers(model), _record_layers(model if layers else nn.Module(), recorded):
        with around or nullcontext():
            output = call_model(model if call is None else call, batch.inputs, model)
            loss = task.mean_loss(output, batch)
        (loss * scale).backward()  # type: ignore[no-untyped-call]
    gradients = {name: _on_host(each.grad) / scale for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad(set_to_none=True)
    return BatchResult(float(loss.detach()), tuple(map(_on_host, tensors_in(output))), gradients, recorded)


@contextmanager
def _record_layers(model: nn.Module, outputs: dict[str, Tensor]) -> Iterator[None]:
    def hook(name: str) -> Callable[..., None]:
        def record(module: nn.Module, args: Any, output: Any) -> None:
            if name not in outputs and (first := next(tensors_in(output), None)) is not None:
                outputs[name] = _on_host(first)

        return record

    with remove_after(module.register_forward_hook(hook(name)) for name, module in model.named_modules() if name):
        yield


def _on_host(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().to("cpu")
    wide = tensor.dtype in (torch.float64, torch.float32) or not tensor.is_floating_point()
    return tensor.clone() if wide else tensor.float()


# -- differences --


def relative_difference(one: Tensor, two: Tensor, scale: float | None = None) -> float:
    """The largest difference over the largest value (or this scale); infinite where only one is finite."""
    if one.shape != two.shape:
        return math.inf
    if not one.numel() or torch.equal(one, two):
        return 0.0
    one, two = one.double(), two.double()
    finite = one.isfinite()
    if not torch.equal(finite, two.isfinite()):
        return math.inf
    if not finite.any():
        return 0.0
    largest, most = float((one - two)[finite].abs().max()), float(one[finite].abs().max())
    return largest / max(scale or 0.0, most) if largest else 0.0


def largest_value(tensors: Mapping[str, Tensor]) -> float:
    return max((float(each.abs().max()) for each in tensors.values() if each.numel()), default=0.0)


def compare(one: BatchResult, two: BatchResult) -> ResultDifference:
    scale = SMALL * largest_value(one.gradients)
    gradients = dict.fromkeys(one.gradients.keys() ^ two.gradients.keys(), math.inf)
    for name in one.gradients.keys() & two.gradients.keys():
        if _is_rounding(name, one.gradients) and _is_rounding(name, two.gradients):
            continue
        gradients[name] = relative_difference(one.gradients[name], two.gradients[name], scale)
    worst = max(gradients, key=lambda name: gradients[name], default="")
    outputs = math.inf
    if len(one.outputs) == len(two.outputs):
        outputs = max(map(relative_difference, one.outputs, two.outputs), default=0.0)
    first, second = (torch.tensor(each.loss, dtype=torch.float64) for each in (one, two))
    loss = relative_difference(first, second)
    return ResultDifference(loss, outputs, gradients.get(worst, 0.0), worst, one.loss, two.loss)


def _is_rounding(name: str, gradients: Mapping[str, Tensor]) -> bool:
    """A bias before BatchNorm: the norm subtracts it again."""
    layer, _, attribute = name.rpartition(".")
    weight = gradients.get(f"{layer}.weight") if attribute == "bias" else None
    if weight is None or not weight.numel() or not gradients[name].numel():
        return False
    return float(gradients[name].abs().max()) < CANCELLED * float(weight.abs().max())


def first_differing_layer(
    one: Layers, two: Layers, limit: float, measure: Callable[..., float] = relative_difference
) -> str | None:
    """The first layer, in the order in which they returned, whose outputs differ by more than `limit`."""
    return next((name for name, value in one.items() if name in two and not measure(value, two[name]) <= limit), None)
