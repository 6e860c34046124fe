"""Statistics of each layer at some steps (`row_schedule.py`): gradient norms, weight updates and activations.

Everything is reduced on the device. The few results are copied asynchronously and read when the host next synchronizes
with the device. This uses no random numbers, changes nothing and keeps no tensor of the training.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from trueloop.measure.norms import norms
from trueloop.measure.tensors import dense, tensors_in
from trueloop.torch_private.foreach import foreach_sub_

__all__ = ["LayerLook", "Reading", "during_forward", "remove_after"]

Saw = Callable[[str, nn.Module, Any, Any], None]  # Told (name, module, what went in, what came out) of each call


def during_forward(
    root: nn.Module, parts: Sequence[tuple[str, nn.Module]], saw: Saw, ended: Callable[[Any], None]
) -> Callable[[], None]:
    """Look at each call of the parts during the next call of the root, then at its output; nothing is left behind.
    Returns what takes the hooks away, should no forward come."""
    handles: list[Any] = []

    def remove() -> None:
        while handles:
            handles.pop().remove()

    def whole(module: nn.Module, given: Any, output: Any) -> None:
        remove()  # first of all: layers that are computed again in the backward must not be seen twice
        with torch.no_grad():
            ended(output)

    def part(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, given: Any, output: Any) -> None:
            with torch.no_grad():
                saw(name, module, given, output)

        return look

    handles.extend(module.register_forward_hook(part(name)) for name, module in parts)
    handles.append(root.register_forward_hook(whole))
    return remove


@contextmanager
def remove_after(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Removes the hooks at the end of the block."""
    with ExitStack() as stack:
        for hook in hooks:
            stack.callback(hook.remove)
        yield


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look saw. `values` may be asked for once the host has waited for the device."""

    step: int  # Steps taken when it was over, as in the lines of metrics
    parameters: tuple[str, ...]  # Those that had a gradient
    calls: tuple[tuple[str, int], ...]  # Name of the layer and size of its output, call by call
    numbers: Tensor  # On the host, or on its way there

    def values(self) -> dict[str, float]:
        rows: list[float] = self.numbers.tolist()
        count = len(self.parameters)
        lengths, weights, changes = (rows[part * count : (part + 1) * count] for part in range(3))
        found: dict[str, float] = {}
        for name, norm, weight, change in zip(self.parameters, lengths, weights, changes, strict=True):
            found[f"grad_norm/{name}"] = norm
            if weight:  # a bias that begins at zero has no length that its change could be compared with
                found[f"update/{name}"] = change / weight
        return found | self._activations(rows[3 * count :])

    def _activations(self, rows: Sequence[float]) -> dict[str, float]:
        """Several calls of one layer are taken together, each with the weight of its size."""
        sums: dict[str, list[float]] = {}
        count = len(self.calls)
        means, spreads, filled = (rows[part * count : (part + 1) * count] for part in range(3))
        for (name, size), mean, spread, nonzero in zip(self.calls, means, spreads, filled, strict=True):
            total = sums.setdefault(name, [0.0] * 4)
            for place, value in enumerate((size, size * mean, spread * spread + size * mean * mean, nonzero)):
                total[place] += value
        found: dict[str, float] = {}
        for name, (size_all, total_mean, total_square, filled_all) in sums.items():
            mean = total_mean / size_all
            variance = total_square / size_all - mean * mean
            found[f"activation_mean/{name}"] = mean
            found[f"activation_std/{name}"] = math.sqrt(max(0.0, variance)) if math.isfinite(variance) else variance
            found[f"activation_zeros/{name}"] = 1 - filled_all / size_all
        return found


@final
class LayerLook:
    """One look, at one step: `saw` in the forward, `gradients` before the update, `updated` after it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._calls: list[tuple[str, int]] = []
        self._means: list[Tensor] = []
        self._spreads: list[Tensor] = []
        self._filled: list[Tensor] = []
        self._names: tuple[str, ...] = ()
        self._weights: list[Tensor] = []
        self._before: list[Tensor] = []
        self._numbers: list[Tensor] = []

    def saw(self, name: str, output: Any) -> None:
        """What a layer gives: its mean, the length of what deviates from it, and how many are not zero."""
        numbers = next((tensor for tensor in tensors_in(output) if _readable(tensor)), None)
        if numbers is not None:
            wide = numbers.detach().float()
            mean = wide.mean()
            self._means.append(mean)
            self._spreads.append(torch.linalg.vector_norm(wide - mean))  # three times as fast on a CPU as `var_mean`
            self._filled.append(torch.count_nonzero(wide))
            self._calls.append((name, numbers.numel()))

    @torch.no_grad()
    def gradients(self) -> None:
        """As the backward has left them, unscaled; and the weights, to be compared with what they become."""
        found = list(_with_gradient(self.model))
        self._names = tuple(name for name, _, _ in found)
        self._weights = [weight for _, weight, _ in found]
        self._before = [weight.detach().clone() for weight in self._weights]
        self._numbers = [norms([*(gradient for _, _, gradient in found), *self._before])] if found else []

    @torch.no_grad()
    def updated(self, step: int) -> Reading:
        """After the update: how far the weights have moved; and the end of the look."""
        if self._before:
            foreach_sub_(self._before, self._weights)
            self._numbers.append(norms(self._before))
        parts = list(self._numbers)
        if self._calls:
            parts += [torch.stack(self._means), torch.stack(self._spreads), torch.stack(self._filled).float()]
        numbers = torch.cat(parts or [torch.zeros(0)]).to("cpu", non_blocking=True)
        self._before, self._weights, self._numbers = [], [], []
        self._means, self._spreads, self._filled = [], [], []
        return Reading(step, self._names, tuple(self._calls), numbers)


def _with_gradient(model: nn.Module) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(name, weight, gradient), each weight once."""
    for name, weight in model.named_parameters():
        if weight.grad is not None and weight.grad.numel():
            gradient = dense(weight.grad)
            if gradient.numel():
                yield name, weight, gradient


def _readable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0
