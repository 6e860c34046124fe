"""Repeats a forward to find the operation that produced the first NaN or Inf, without side effects.

During the replay every module works on a copy of its attributes (buffers cloned, lists and dictionaries copied), so
whatever the forward writes is discarded. Random generators are restored, prints are suppressed, and the user's hooks
are skipped.
"""

import copy
import io
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from trueloop.event import Place
from trueloop.measure.nonfinite import bounds
from trueloop.measure.randomness import fence
from trueloop.taps.calls import tensors_in
from trueloop.taps.place import here, is_users
from trueloop.torch_private.modules import BUFFERS, COMPILED_CALL, FORWARD_HOOKS

__all__ = ["Origin", "Replay", "autocast_now"]

_MASKING: Final = frozenset(
    {"masked_fill", "where", "full", "full_like", "new_full", "fill", "tensor", "index_fill", "setitem", "triu", "tril"}
)  # Operations that write -inf on purpose
_TURNING: Final = ("neg", "sub", "rsub", "mul", "abs")  # Operations that turn the -inf of a mask into +inf
_STEEP_AT_ZERO: Final = frozenset(
    {"sqrt", "norm", "vector_norm", "pow", "cdist", "pairwise_distance", "log", "rsqrt", "reciprocal", "std", "atan2"}
)  # Operations without a finite gradient at zero


@dataclass(frozen=True, slots=True)
class Origin:
    """The operation that produced the first NaN or Inf."""

    layer: str
    operation: str
    place: Place | None
    input_range: tuple[float, float] | None
    value: str


def autocast_now() -> tuple[str, torch.dtype] | None:
    """(device, dtype) of the active autocast, or None."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return device, torch.get_autocast_dtype(device)
    return None


class Replay(TorchFunctionMode):
    """Runs a model's forward and checks the inputs and outputs of each operation."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._names = {module: name for name, module in model.named_modules()}
        self._running: list[nn.Module] = []
        self._first_infinity: Origin | None = None
        self._first_nan: Origin | None = None
        self._nan_out_of_infinity = False
        self.steep: Origin | None = None  # The first operation at zero, where its gradient is not finite

    @property
    def origin(self) -> Origin | None:
        """The operation that overflowed, if the first NaN came from an Inf that is not a mask; else that of the NaN."""
        if self._first_nan is None or (self._nan_out_of_infinity and self._first_infinity is not None):
            return self._first_infinity
        return self._first_nan

    def run(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, grad: bool, autocast: tuple[str, torch.dtype] | None
    ) -> bool:
        """False if the forward could not be run again."""
        hooks = [register_module_forward_pre_hook(self._enter)]
        hooks.append(register_module_forward_hook(self._leave, always_call=True))
        device, kind = autocast or ("cpu", torch.bfloat16)
        try:
            with (
                fence(),
                _copied_attributes(self._model),
                redirect_stdout(io.StringIO()),
                torch.set_grad_enabled(grad),
                torch.autocast(device, kind, enabled=autocast is not None),
                self,
            ):
                self._model(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a forward that cannot be repeated must not end the run
            return False
        finally:
            for hook in hooks:
                hook.remove()
        return True

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._running:
            self._running.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        name = str(getattr(func, "__name__", "")).strip("_")
        if name == "get":  # a property: .shape, .data
            return func(*args, **given)
        with torch.no_grad():
            inputs = [t.detach() for t in tensors_in((args, given)) if t.is_floating_point()]
            had_nan = any(bool(t.isnan().any()) for t in inputs)
            had_infinity = any(bool(t.isinf().any()) for t in inputs)
            had_overflow = any(bool(t.isposinf().any()) for t in inputs)
            range_before = bounds(inputs)
            if self.steep is None and name in _STEEP_AT_ZERO and inputs:
                self._check_zero(name, args, inputs[0], range_before)
        output = func(*args, **given)
        with torch.no_grad():
            made = [t.detach() for t in tensors_in(output) if t.is_floating_point()]
            if not had_nan and self._first_nan is None and any(bool(t.isnan().any()) for t in made):
                self._first_nan = self._origin(name, range_before, "nan")
                self._nan_out_of_infinity = had_infinity
            if not (had_nan or had_overflow or self._first_infinity) and name not in _MASKING:
                masked = had_infinity and name in _TURNING
                overflowed = any(bool((t.isposinf() if had_infinity else t.isinf()).any()) for t in made)
                if overflowed and not masked:
                    self._first_infinity = self._origin(name, range_before, "inf")
        return output

    def _check_zero(
        self, name: str, args: tuple[Any, ...], taken: Tensor, range_before: tuple[float, float] | None
    ) -> None:
        exponent = args[1] if name == "pow" and len(args) > 1 else 0.5
        if isinstance(exponent, (int, float)) and exponent < 1 and bool((taken == 0).any()):
            self.steep = self._origin(name, range_before, "nan")

    def _origin(self, operation: str, range_before: tuple[float, float] | None, value: str) -> Origin:
        module = self._running[-1] if self._running else self._model
        name = self._names.get(module, "")
        kind = type(module).__name__
        return Origin(f"{name} ({kind})" if name else kind, operation, here(3), range_before, value)


@contextmanager
def _copied_attributes(model: nn.Module) -> Iterator[None]:
    """Each module works on a copy of its attributes; the originals are restored."""
    kept = [(module, module.__dict__) for module in model.modules()]
    try:
        for module, attributes in kept:
            object.__setattr__(module, "__dict__", _copied(attributes))
        yield
    finally:
        for module, attributes in kept:
            object.__setattr__(module, "__dict__", attributes)


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    copies = {
        name: copy.copy(value) if isinstance(value, (dict, list, set, deque)) else value
        for name, value in attributes.items()
    }
    copies[BUFFERS] = {name: None if b is None else b.detach().clone() for name, b in attributes[BUFFERS].items()}
    for hooks in FORWARD_HOOKS:
        kept = ((key, hook) for key, hook in attributes[hooks].items() if not _of_user(hook))
        copies[hooks] = type(attributes[hooks])(kept)
    copies[COMPILED_CALL] = None
    return copies


def _of_user(hook: Any) -> bool:
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return code is not None and is_users(code.co_filename)
