"""Every operation of one forward and backward: its calls, the user's lines, and the operations it was called through.

A dispatch mode sees an operation below autograd: `addmm`, where Python called `linear`. Rules of autocast and vmap hold
for the outer one. So each call is marked in a profile, whose nesting shows the outer ones.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from trueloop.event import Place
from trueloop.op_claims.sample import Sample
from trueloop.torch_private.autograd import forward_number, node_number
from trueloop.torch_private.custom_ops import in_recorded_call
from trueloop.torch_private.dispatch import TorchDispatchMode, pytree
from trueloop.torch_private.profiler import overload_names
from trueloop.usercode.ownership import is_users

__all__ = ["OperationUse", "operations_of"]

MARK: Final = "trueloop operation "


@final
@dataclass(slots=True)
class OperationUse:
    """One operation, over all its calls in one direction."""

    operator: Any  # aten.addmm.default
    backward: bool
    sample: Sample  # Arguments of the first call
    needs_gradient: bool = False  # In some call an input requires a gradient, and gradients are recorded
    calls: int = 0
    places: dict[Place, None] = field(default_factory=dict)  # Lines of the user's
    layers: dict[str, None] = field(default_factory=dict)  # For calls without such a line
    outer: set[str] = field(default_factory=set)  # What it was called through, itself included: aten::linear

    @property
    def name(self) -> str:
        return str(self.operator.name())


def operations_of(step: Callable[[], None], model: nn.Module) -> tuple[list[OperationUse], Exception | None]:
    """Run the step once; the operations, in the order of their first calls, and the error that ended it."""
    log, error = _Log(), None
    handles = [each for name, part in model.named_modules() for each in log.follow(name or "(the model)", part)]
    recorded = profile(activities=[ProfilerActivity.CPU], experimental_config=overload_names(), acc_events=True)
    recorded.start()
    try:
        with log:
            step()
    except Exception as raised:  # noqa: BLE001 - an operation without a backward ends the step; the caller reports it
        error = raised
    finally:
        recorded.stop()
        for handle in handles:
            handle.remove()
    events: Any = recorded.events()  # type: ignore[no-untyped-call]
    for event in events or ():
        if event.name.startswith(MARK):
            log.marked[int(event.name[len(MARK) :])].outer |= set(_outer(event))
    return list(log.uses.values()), error


def _outer(event: Any) -> Iterator[str]:
    parent = event.cpu_parent
    while parent is not None:
        if "::" in parent.name and not parent.name.startswith(("autograd::", MARK)):
            yield f"{parent.name}.{parent.overload_name}" if parent.overload_name else parent.name
        parent = parent.cpu_parent


@final
class _Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.uses: dict[tuple[str, bool], OperationUse] = {}
        self.marked: list[OperationUse] = []
        self._by_node: dict[int, tuple[Place | None, str]] = {}  # Of the forward, for its backward
        self._layers: list[str] = []

    def follow(self, name: str, module: nn.Module) -> Iterator[Any]:
        """Know the layer that is running. Not by `always_call`: an error ends the step anyway."""
        described = f"{name} ({type(module).__name__})"
        yield module.register_forward_pre_hook(lambda *_: self._layers.append(described))
        yield module.register_forward_hook(lambda *_: self._leave())

    def _leave(self) -> None:
        if self._layers:
            self._layers.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        use = self._use(func, args, kwargs)
        with record_function(f"{MARK}{len(self.marked)}"):
            self.marked.append(use)
            return func(*args, **kwargs)

    def _use(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OperationUse:
        node = node_number()
        if node is None:
            place, layer = _users_line(), self._layers[-1] if self._layers else ""
            self._by_node.setdefault(forward_number(), (place, layer))  # the first one made the node
        else:
            place, layer = self._by_node.get(node, (None, ""))
        use = self.uses.get((func.name(), node is not None))
        if use is None:
            kept = Sample(*pytree.tree_map_only(Tensor, Tensor.detach, (args, kwargs)))
            use = self.uses[func.name(), node is not None] = OperationUse(func, node is not None, kept)
        use.calls += 1
        if place is not None:
            use.places[place] = None
        elif layer:
            use.layers[layer] = None
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not use.needs_gradient and any(tensor.requires_grad for tensor in tensors):
            use.needs_gradient = torch.is_grad_enabled() or in_recorded_call()
        return use


def _users_line() -> Place | None:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not operations_of.__code__ and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    outside = frame is None or frame.f_code is operations_of.__code__  # whoever asked for this report
    return None if outside else Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
