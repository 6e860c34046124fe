"""Where a non-finite loss or gradient comes from: the batch is computed again, and every layer is checked.

Nothing changes: gradients are not kept, random states are preserved, running statistics are restored.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch
from trueloop.engine.buffers import BufferSnapshot
from trueloop.engine.call_model import call_model
from trueloop.engine.layers import remove_after
from trueloop.engine.task_kind import LossState, Task
from trueloop.event import NotFinite
from trueloop.measure.nonfinite import bounds, nan_or_inf, not_finite
from trueloop.measure.randomness import fence
from trueloop.measure.tensors import tensors_in

__all__ = ["RepeatedStep", "describe_origin", "find_origin", "find_origin_in_shards"]


@final
@dataclass
class _Call:
    """One call of one layer: what went in and came out, and, after the backward, what its gradients were like."""

    layer: str
    kind: str
    bad: bool  # Its output is non-finite and its input is finite
    given: tuple[float, float] | None
    value: str
    own: Sequence[Tensor]  # Its own parameters, those of its parts included
    wrong_before: list[bool] = field(default_factory=list)  # Was a gradient of its output non-finite?
    wrong_after: list[bool] = field(default_factory=list)  # Was a gradient of its input non-finite?


@contextmanager
def _watched(model: nn.Module, calls: list[_Call]) -> Iterator[None]:
    """Fills `calls` in the order in which layers answer: the parts of a layer before the layer."""
    names = {module: name for name, module in model.named_modules()}

    def look(module: nn.Module, given: Any, output: Any) -> None:
        bad = not_finite(output) and not not_finite(given)
        own = [parameter for parameter in module.parameters() if parameter.requires_grad]
        kind = type(module).__name__
        call = _Call(names[module] or kind, kind, bad, bounds(tensors_in(given)), nan_or_inf(output), own)
        calls.append(call)
        inside = {id(tensor) for tensor in tensors_in(output)}
        _flag_gradients(tensors_in(output), call.wrong_before)
        _flag_gradients([tensor for tensor in tensors_in(given) if id(tensor) not in inside], call.wrong_after)

    with remove_after(module.register_forward_hook(look) for module in model.modules()):
        yield


def _flag_gradients(tensors: Iterable[Tensor], flags: list[bool]) -> None:
    for tensor in tensors:
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: flags.append(not_finite(gradient)))  # type: ignore[no-untyped-call]


def find_origin(
    model: nn.Module,
    task: Task,
    batch: Batch | None,
    step: int,
    rates: tuple[float, ...],
    autocast: Callable[[], AbstractContextManager[Any]],
    state: LossState | None = None,
) -> NotFinite:
    """The first non-finite value: input, weight, layer output, loss, or only a gradient. None: no batch here. `state`:
    where the run stood, for a loss that takes it."""

    def event(
        what: Any, origin: Any, layer: str = "", value: str = "nan", given: Any = None, op: str = ""
    ) -> NotFinite:
        return NotFinite(step, None, what, layer, op, given, value, origin, rates)

    if batch is None:
        return event("gradient", "unknown")
    if not_finite(batch.inputs) or not_finite(batch.targets):
        return event("loss", "input", value=nan_or_inf(tuple(batch)))
    for name, weight in model.named_parameters():
        if not_finite(weight):
            return event("weight", "weight", name, nan_or_inf(weight))
    calls: list[_Call] = []
    statistics = BufferSnapshot(model)
    with fence(), torch.enable_grad():
        with _watched(model, calls), autocast():
            output = call_model(model, batch.inputs)
            loss = task.loss(output, batch, state).total
        gradients = [] if not_finite(loss) else _gradients(loss, model)
    statistics.restore()  # only now: a norm's backward refuses statistics that have moved since its forward
    first = next((call for call in calls if call.bad), None)
    if first is not None:
        return event("loss", "layer", first.layer, first.value, first.given, first.kind)
    if not_finite(loss):
        return event("loss", "loss", value=nan_or_inf(loss), given=bounds(tensors_in(output)))
    blamed = _blamed(gradients, calls)
    if blamed is None:
        return event("gradient", "unknown")
    return event("gradient", "layer", blamed.layer, "nan", blamed.given, blamed.kind)


def find_origin_in_shards(
    model: nn.Module,
    batch: Any,
    step: int,
    rates: tuple[float, ...],
    own: Callable[[Iterable[Tensor]], list[Tensor]],
) -> NotFinite:
    """Where the batch cannot be computed again, because processes hold parts of the model or the step is the user's
    own: inputs and weights only."""
    if not_finite(batch):
        return NotFinite(step, None, "loss", "", "", None, nan_or_inf(batch), "input", rates)
    named = list(model.named_parameters())
    for (name, _), part in zip(named, own(parameter for _, parameter in named), strict=True):
        if not_finite(part):
            return NotFinite(step, None, "weight", name, "", None, nan_or_inf(part), "weight", rates)
    return NotFinite(step, None, "loss", "", "", None, "nan", "unknown", rates)


@final
class RepeatedStep:
    """A recipe's own step, computed once more at the end of a run: the origin of its first non-finite update."""

    def __init__(self, model: nn.Module, step: int, rates: tuple[float, ...]) -> None:
        self.model, self.step, self.rates = model, step, rates
        self.found: NotFinite | None = None
        self._calls: list[_Call] = []

    def watched(self) -> AbstractContextManager[None]:
        return _watched(self.model, self._calls)

    def update(self, loss: Tensor, parameters: Sequence[Tensor]) -> bool:
        """Instead of an update: is it finite?"""
        gradients = [(each, each.grad) for each in parameters if each.grad is not None]
        finite = not not_finite(loss) and not any(not_finite(gradient) for _, gradient in gradients)
        if not finite and self.found is None:
            self.found = self._origin(loss, gradients)
        return finite

    def _origin(self, loss: Tensor, gradients: Sequence[tuple[Tensor, Tensor]]) -> NotFinite:
        def event(what: Any, origin: Any, call: _Call | None = None, value: str = "nan") -> NotFinite:
            where = ("", "", None) if call is None else (call.layer, call.kind, call.given)
            return NotFinite(self.step, None, what, *where, value, origin, self.rates)

        first = next((call for call in self._calls if call.bad), None)
        if not_finite(loss):
            if first is None:
                return event("loss", "loss", value=nan_or_inf(loss))
            return event("loss", "layer", first, first.value)
        blamed = _blamed(gradients, self._calls)
        return event("gradient", "unknown" if blamed is None else "layer", blamed)


def _gradients(loss: Tensor, model: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """(parameter, gradient), without leaving any on the parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    pairs = zip(parameters, found, strict=True)
    return [(parameter, gradient) for parameter, gradient in pairs if gradient is not None]


def _blamed(gradients: Sequence[tuple[Tensor, Tensor]], calls: Sequence[_Call]) -> _Call | None:
    """The innermost layer that gets finite gradients and gives its input, or its own weights, non-finite ones."""
    wrong = {id(parameter) for parameter, gradient in gradients if not_finite(gradient)}
    for call in calls:  # parts come before what they are part of
        own = any(id(parameter) in wrong for parameter in call.own)
        if not any(call.wrong_before) and (own or any(call.wrong_after)):
            return call
    return None


def describe_origin(event: NotFinite, epoch: int, batch: int) -> str:
    """For a person: what, where, which batch."""
    at = f"at step {event.step + 1:,} (epoch {epoch}, batch {batch})"
    low, high = event.input_range or (0.0, 0.0)
    given = f" from finite inputs in [{low:.3g}, {high:.3g}]" if event.input_range else ""
    match event.what, event.origin:
        case _, "input":
            return f"The data of the batch {at} hold {event.value}: the fault is in the data, not in the model."
        case _, "weight":
            return f"The weight {event.layer} holds {event.value} {at}: it was so before this batch."
        case "gradient", "layer":
            return (
                f"The gradient is non-finite {at}: layers and loss are finite, but the backward of {event.layer} "
                f"({event.operation}) is not."
            )
        case _, "layer":
            layer = f"{event.layer} ({event.operation})"
            return f"The layer {layer} gives {event.value}{given} {at}: it is the first that does."
        case "loss", "unknown":
            return f"The loss or a gradient is non-finite {at}."
        case _, "loss":
            given = given.replace("inputs", "outputs")
            return f"The loss is {event.value} {at}, though every layer's output is finite{given}."
        case _:
            return f"The gradient is non-finite {at}, though layers and loss are finite: it comes from the backward."
