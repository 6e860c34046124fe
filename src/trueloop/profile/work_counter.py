"""Counts the work of one step per operation: FLOPs, bytes, live tensors, and activations kept for the backward pass.

A dispatch mode sees every operation of the step, including the backward pass and the optimizer, with its tensors. It
changes nothing. It is slow, so it runs for one step, which is not timed. The running module is tracked by torch's
global module hooks, except in compiled models.
"""

import traceback
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.flop_counter import flop_registry

from trueloop.profile.copies import Copies
from trueloop.results.profile import Phase, Work
from trueloop.taps.bus import Bus
from trueloop.taps.tap import Patch
from trueloop.torch_private.dataloader import LoaderIterator
from trueloop.torch_private.dispatch import TorchDispatchMode, operator_packet, operator_schema

__all__ = ["ModuleStack", "WorkCounter", "uses_tf32"]

ALLOCATIONS: Final = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""Operations that allocate a tensor and write nothing into it."""


@final
class ModuleStack:
    """The running modules, outermost first, by their names in the model."""

    def __init__(self, enter: Callable[[str], Any] | None = None, leave: Callable[[Any], None] | None = None) -> None:
        self.names: dict[int, str] = {}
        self.kinds: dict[str, str] = {}
        self._stack: list[tuple[int, Any]] = []
        self._on_enter, self._on_leave = enter, leave
        self._handles: list[Any] = []

    @property
    def inside(self) -> str | None:
        """The innermost module; None outside of all modules."""
        return self.names.get(self._stack[-1][0]) if self._stack else None

    def install(self) -> None:
        before = register_module_forward_pre_hook(self._before)
        self._handles = [before, register_module_forward_hook(self._after, always_call=True)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        while self._stack:
            self._leave()

    def _before(self, module: nn.Module, args: Any) -> None:
        if not self._stack and id(module) not in self.names:
            for name, part in module.named_modules():
                self.names[id(part)] = name
                self.kinds.setdefault(name, type(part).__name__)
        name = self.names.get(id(module), "")
        self._stack.append((id(module), self._on_enter(name) if self._on_enter else None))

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._stack:
            top = self._stack[-1][0]
            self._leave()
            if top == id(module):
                break

    def _leave(self) -> None:
        _, token = self._stack.pop()
        if self._on_leave is not None:
            self._on_leave(token)


@final
class OperationCount:
    """Totals over all calls of one operation."""

    __slots__ = ("bytes", "calls", "flops")

    def __init__(self) -> None:
        self.calls, self.flops, self.bytes = 0, 0, 0


@final
class WorkCounter(TorchDispatchMode):
    """Active from the end of one step to the end of the next."""

    def __init__(self, bus: Bus) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bus = bus
        self.stack = ModuleStack()
        self.operations: defaultdict[str, OperationCount] = defaultdict(OperationCount)  # By name: addmm
        self.shapes: list[tuple[int, int, str]] = []  # For each computing operation: FLOPs, bytes, dtype
        self.flops_by_module: Counter[str] = Counter()
        self.copies = Copies()
        self.activations: Counter[str] = Counter()  # Bytes kept for the backward pass, by module
        self.pointwise = self.pointwise_bytes = self.fused_bytes = self.convolutions = 0
        self.peak, self.peak_module = 0, ""
        self.peak_phase: Phase = "python"  # The phase in which the tensors of this step took the most memory
        self.failure = ""  # An error of the counter; counting stops after it
        self._tf32 = False
        self._alive = 0
        self._known: dict[int, Any] = {}
        self._kept: set[int] = set()
        self._own: set[int] = set()  # Storages of parameters and buffers: not activations
        self._pointwise: set[int] = set()
        self._read: set[tuple[int, str]] = set()
        self._loading = False  # A loader builds a batch in this process: not counted as work of the step
        self._patch: Patch | None = None
        self._hooks = saved_tensors_hooks(self._keep, lambda tensor: tensor)

    # -- begin and end --

    def begin(self, own: set[int]) -> None:
        """`own`: data pointers of the storages of parameters and buffers."""
        self._own, self._tf32 = own, uses_tf32()
        self.stack.install()
        self._patch = Patch(LoaderIterator, "__next__", self._wrap_next)
        self._hooks.__enter__()
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._hooks.__exit__(None, None, None)
        self.stack.remove()
        if self._patch is not None:
            self._patch.undo()
        self._known.clear()

    # -- every operation --

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self._loading and not self.failure:
            try:
                self._count(func, args, kwargs or {}, out)
            except Exception:  # noqa: BLE001 - the observer never breaks the run
                self.failure = traceback.format_exc()
        return out

    def _wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            self._loading = True
            try:
                return original(iterator)
            finally:
                self._loading = False

        return __next__

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        name = operator_packet(func).__name__
        outputs = list(_tensors(out)) or list(_written_tensors(func, args, kwargs))
        moved = sum(map(_size, (*_tensors(args), *_tensors(kwargs), *outputs)))
        if not self.bus.in_step:
            self.copies.see(func, args, kwargs, out, moved)
        if _is_view(func) or name == "_unsafe_view" or not outputs:
            return
        for tensor in outputs:
            self._live(tensor)
        if name in ALLOCATIONS:
            return
        inputs = [*_tensors(args), *_tensors(kwargs)]
        formula = flop_registry.get(operator_packet(func))
        flops = int(formula(*args, **kwargs, out_val=out)) if formula is not None else 0
        row = self.operations[name]
        row.calls, row.flops, row.bytes = row.calls + 1, row.flops + flops, row.bytes + moved
        self.shapes.append((flops, moved, self._type_of(inputs or outputs)))
        self.convolutions += "convolution" in name
        if flops and (module := self.stack.inside) is not None:
            self.flops_by_module[module] += flops
        self._fuse(torch.Tag.pointwise in func.tags, inputs, outputs, moved)

    def _fuse(self, pointwise: bool, inputs: list[Tensor], outputs: list[Tensor], moved: int) -> None:
        """Count the bytes to read and write if adjacent elementwise operations were fused."""
        phase = self._phase()
        for tensor in inputs:
            key = _key(tensor)
            if pointwise and key not in self._pointwise and (key, phase) not in self._read:
                self._read.add((key, phase))
                self.fused_bytes += _size(tensor)
            elif not pointwise and key in self._pointwise:
                self._pointwise.discard(key)
                self.fused_bytes += _size(tensor)
        for tensor in outputs:
            key = _key(tensor)
            if pointwise and key not in self._known:  # written in place, into a tensor from before the step
                self.fused_bytes += _size(tensor)
            (self._pointwise.add if pointwise else self._pointwise.discard)(key)
        if pointwise:
            self.pointwise += 1
            self.pointwise_bytes += moved

    # -- live tensors --

    def _live(self, tensor: Tensor) -> None:
        key = _key(tensor)
        if key in self._known or key in self._own or not key:
            return
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        self._known[key] = weakref.finalize(storage, self._freed, key, size)
        self._known[key].atexit = False
        self._alive += size
        if self._alive > self.peak:
            self.peak, self.peak_phase, self.peak_module = self._alive, self._phase(), self.stack.inside or ""

    def _freed(self, key: int, size: int) -> None:
        self._known.pop(key, None)
        self._alive -= size

    def _keep(self, tensor: Tensor) -> Tensor:
        key = _key(tensor)
        if key and key not in self._own and key not in self._kept:
            self._kept.add(key)
            self.activations[self.stack.inside or ""] += tensor.untyped_storage().nbytes()
        return tensor

    def _phase(self) -> Phase:
        if self.bus.in_backward:
            return "backward"
        return "forward" if self.bus.call is not None else "optimizer" if self.bus.in_step else "python"

    def _type_of(self, tensors: list[Tensor]) -> str:
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors if tensor.is_floating_point()]
        kind = kinds[-1] if kinds else "float32"
        return "tf32" if kind == "float32" and self._tf32 and tensors[-1].is_cuda else kind

    # -- result --

    def work(self) -> Work:
        by_type: Counter[str] = Counter()
        for flops, _, kind in self.shapes:
            by_type[kind] += flops
        return Work(
            operations=len(self.shapes),
            flops=sum(flops for flops, _, _ in self.shapes),
            bytes=sum(moved for _, moved, _ in self.shapes),
            flops_by_type={kind: flops for kind, flops in by_type.items() if flops},
            pointwise=self.pointwise,
            pointwise_bytes=self.pointwise_bytes,
            fused_bytes=min(self.fused_bytes, self.pointwise_bytes),
            convolutions=self.convolutions,
        )


@cache
def _is_view(func: Any) -> bool:
    aliases = [value.alias_info for value in operator_schema(func).returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _written_tensors(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """For an operation without a return value: the tensors it wrote into."""
    for position, name in _written_arguments(func):
        yield from _tensors(args[position] if position < len(args) else kwargs.get(name))


@cache
def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    arguments = enumerate(operator_schema(func).arguments)
    return tuple((at, each.name) for at, each in arguments if each.alias_info is not None and each.alias_info.is_write)


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)


def _size(tensor: Tensor) -> int:
    """Bytes that an operation accesses; for an expanded tensor, the bytes of its storage."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def uses_tf32() -> bool:
    """Whether float32 matrix products may use TF32."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # the script mixes the old and the new setting, which torch rejects
        return False
