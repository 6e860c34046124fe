"""Runs a copy of a model in eval mode on other inputs, without side effects.

The copy has its own buffers, states and small parameters. The user's hooks are skipped, random generators are restored,
and nothing is printed.
"""

from __future__ import annotations

import ast
import copy
import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from trueloop.measure.randomness import GlobalRandomStates
from trueloop.taps.calls import tensors_in
from trueloop.taps.place import is_users
from trueloop.taps.without_warnings import without_warnings
from trueloop.torch_private.modules import HOOKS
from trueloop.usercode.source import source_of

__all__ = ["CannotReplay", "Inputs", "ReplayCopy", "Trace", "mapped"]

Inputs = tuple[tuple[Any, ...], dict[str, Any]]  # Positional and keyword arguments of a call

LARGEST: Final = 64 * 2**20  # Limit for copied buffers and tensors, in bytes; larger parameters are shared, not copied


class CannotReplay(Exception):
    """The forward cannot be repeated; the message says why."""


class ReplayCopy:
    """Makes a fresh copy for each run, so that state that a forward keeps does not affect the next run."""

    def __init__(self, model: nn.Module) -> None:
        if _bytes(model.buffers()) + _bytes(_loose(model)) > LARGEST:
            raise CannotReplay("its buffers are too large to copy")
        if any(_writes_outside(type(module)) for module in model.modules()):
            raise CannotReplay("its forward writes to names outside the model")
        self._model = model
        self._random = GlobalRandomStates()

    def run(self, inputs: Inputs, trace: Trace | None = None, seed: int | None = None) -> Any:
        """The output for these inputs, in eval mode, from the current random states or from a seed."""
        try:
            with self._random.replay(seed), _quiet(), torch.no_grad(), _uncached_casts():
                model = copy.deepcopy(self._model, _memo(self._model)).eval()
                args, kwargs = mapped(inputs, Tensor.clone)  # a forward may write into what it is given
                watch = trace or Trace()
                watch.follow(model)
                with watch:
                    return model(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises here, it raises for us alone
            raise CannotReplay(f"its forward could not be repeated: {type(error).__name__}: {error}") from None


class Trace(TorchFunctionMode):
    """Sees every torch operation in a run of a replay copy, and knows which layer is running."""

    def __init__(self) -> None:
        super().__init__()
        self._running: list[str] = []
        self.layer = ""  # `encoder.lstm (LSTM)`: the layer that runs now

    def follow(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            shown = f"{name} ({type(module).__name__})" if name else type(module).__name__
            module.register_forward_pre_hook(self._enter(shown))
            module.register_forward_hook(self._leave, always_call=True)

    def _enter(self, shown: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self._running.append(shown)
            self.layer = shown

        return enter

    def _leave(self, *_: Any) -> None:
        self._running.pop()
        self.layer = self._running[-1] if self._running else ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if isinstance(given.get("generator"), torch.Generator):
            raise CannotReplay("it draws from a generator of the user's")
        output = func(*args, **given)
        name = str(getattr(func, "__name__", "")).strip("_")
        if name != "get":  # a property: .shape, .data
            self.operation(name, args, given, args[0] if output is None and args else output)
        return output

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """An operation has ended. For in-place operations, `output` is the tensor they wrote to."""


@contextmanager
def _quiet() -> Iterator[None]:
    silent = logging.root.manager.disable
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        stack.enter_context(without_warnings())
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(silent)


@contextmanager
def _uncached_casts() -> Iterator[None]:
    """Autocast caches casts of weights for its block; one made here has no graph: the user's call must not use it."""
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)


def _bytes(tensors: Iterator[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if not is_lazy(tensor))


def _loose(model: nn.Module) -> Iterator[Tensor]:
    """Tensors in plain attributes."""
    own = vars(nn.Module())
    for module in model.modules():
        yield from (tensor for name, value in vars(module).items() if name not in own for tensor in tensors_in(value))


def _memo(model: nn.Module) -> dict[int, Any]:
    """What deepcopy must not copy: large parameters, tensors with a graph, and the user's hooks."""
    memo: dict[int, Any] = {id(tensor): tensor.detach() for tensor in _loose(model) if tensor.grad_fn is not None}
    if _bytes(iter(list(model.parameters()))) > LARGEST:
        memo |= {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        for hooks in (vars(module)[name] for name in HOOKS):
            memo[id(hooks)] = type(hooks)((key, hook) for key, hook in hooks.items() if _is_torchs(hook))
    return memo


def _is_torchs(hook: Any) -> bool:
    owner = getattr(hook, "__self__", hook)
    module = getattr(owner, "__module__", None) or type(owner).__module__
    return str(module).startswith("torch.")


def _writes_outside(cls: type) -> bool:
    """The user's class has a `global` or `nonlocal` statement."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not path or not is_users(path):
        return False
    node = source_of(path).class_named(cls.__name__)
    return node is not None and any(isinstance(inner, (ast.Global, ast.Nonlocal)) for inner in ast.walk(node))


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nested tuples, lists and mappings, with a function applied to each tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list, Mapping)) and next(tensors_in(value), None) is not None:
        raise CannotReplay(f"its inputs lie in a {type(value).__name__}")
    return value
