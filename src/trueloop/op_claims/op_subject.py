"""An operation that claims are tested on: how it is called, its reference, its inputs."""

import inspect
import linecache
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import torch
from torch import Tensor

from trueloop.errors import Misuse
from trueloop.event import Place
from trueloop.op_claims.sample import Sample
from trueloop.torch_private.custom_ops import is_custom_op, is_operator, mutates_arguments
from trueloop.torch_private.dispatch import pytree
from trueloop.usercode.ownership import is_users

__all__ = ["NotTaken", "OpSubject", "call_of", "kind_of", "reference_arguments"]

Kind = Literal["autograd.Function", "custom op", "operator", "compiled function", "function"]
DTYPES: Final = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class NotTaken(Exception):
    """The operation, or its reference, does not take these inputs. `refused`: by an error that it raises itself."""

    def __init__(self, error: BaseException, refused: bool) -> None:
        super().__init__(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}")
        self.refused = refused


@dataclass(frozen=True)
class OpSubject:
    """`samples` lie on the device that is probed, contiguous, each with memory of its own."""

    op: Any
    name: str
    samples: tuple[Sample, ...]
    source: str  # where the inputs come from
    reference: Callable[..., Any] | None = None
    against: str = ""  # its name
    gradient_reference: Callable[..., Any] | None = None  # --gradient-of
    gradient_of: str = ""
    backends: tuple[str, ...] = ("aot_eager",)  # of torch.compile
    target: str = ""  # FILE.py:NAME, for another process; empty: it is in no file

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.op, self.name)

    @cached_property
    def call(self) -> Callable[..., Any]:
        return call_of(self.op)

    @property
    def device(self) -> torch.device:
        tensors = self.samples[0].tensors()
        return tensors[0].device if tensors else torch.device("cpu")

    @property
    def place(self) -> Place | None:
        """Where it is defined."""
        try:
            inner = getattr(self.op, "_init_fn", self.op)
            file, line = inspect.getsourcefile(inner), inspect.getsourcelines(inner)[1]
        except (TypeError, OSError):
            return None
        return Place(file, line, self.name) if file else None

    # -- calls --

    def results(self, sample: Sample, function: Callable[..., Any] | None = None) -> list[Any]:
        """The flat results of the operation, or of `function`. Raises NotTaken. The seed is the same for all calls."""
        with self.taking(function):
            torch.manual_seed(0)
            return [leaf for leaf in pytree.tree_leaves(sample.call(function or self.call)) if leaf is not None]

    @contextmanager
    def taking(self, function: Callable[..., Any] | None = None) -> Iterator[None]:
        """An error inside becomes NotTaken."""
        try:
            yield
        except NotTaken:
            raise
        except (Exception, SystemExit) as error:
            raise NotTaken(error, refused=_is_refusal(error, opaque=self.kind not in FROM_PYTHON)) from error

    def truth(self, sample: Sample) -> list[Any] | None:
        """The reference, in float64."""
        try:
            return self.results(sample.cast(torch.float64), self.reference)
        except NotTaken:
            return None

    @cached_property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """Floating-point dtypes that the operation takes."""
        first = self.samples[0]
        return tuple(each for each in DTYPES if first.floats() and self._takes(first.cast(each)))

    def _takes(self, sample: Sample) -> bool:
        try:
            self.results(sample.copied())
        except NotTaken:
            return False
        return True

    @cached_property
    def draws(self) -> bool:
        """Do the reference, or the operation, draw random numbers?"""

        def seeded(seed: int) -> list[Any]:
            torch.manual_seed(seed)
            return pytree.tree_leaves(self.samples[0].copied().call(self.reference or self.call))

        return any(
            isinstance(one, Tensor) and not torch.equal(one.detach().nan_to_num(), other.detach().nan_to_num())
            for one, other in zip(seeded(1), seeded(2), strict=False)
        )

    @cached_property
    def in_place(self) -> bool:
        """Does it declare that it writes an input: by `mark_dirty`, its schema, or as the reference does?"""
        if is_custom_op(self.op) or is_operator(self.op):
            return any(mutates_arguments(self.op))
        if self.kind == "autograd.Function":
            sample = self.samples[0].copied().map(lambda tensor: _graph_copy(tensor))
            results = self.results(sample)
            return any(result is tensor for result in results for tensor in sample.tensors())
        return self.reference is not None and _writes(self.reference, self.samples[0])


FROM_PYTHON: Final = ("autograd.Function", "custom op", "function")


def _graph_copy(tensor: Tensor) -> Tensor:
    return tensor.clone().requires_grad_().clone() if tensor.is_floating_point() else tensor


def _writes(function: Callable[..., Any], sample: Sample) -> bool:
    copy = sample.copied()
    torch.manual_seed(0)
    copy.call(function)
    pairs = zip(copy.tensors(), sample.tensors(), strict=True)
    return any(not torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)


def _is_refusal(error: BaseException, opaque: bool) -> bool:
    """Raised on purpose: by `raise`, `assert` or a check in the user's file, or by compiled code."""
    if isinstance(error, NotImplementedError):  # what torch raises for a dtype or device without a kernel
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if opaque:
        return "INTERNAL ASSERT" not in str(error)
    last = frames[-1] if frames else None
    if last is None or not is_users(last.filename):
        return False
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return line.startswith(("raise", "assert")) or "_check" in line


def kind_of(op: Any, name: str) -> Kind:
    """Raises Misuse for something that is not an operation."""
    typed = f"Nothing was run: name a function, an autograd.Function or a custom op instead of {name}."
    if isinstance(op, type):
        if issubclass(op, torch.autograd.Function):
            return "autograd.Function"
        if issubclass(op, torch.nn.Module):
            raise Misuse(f"{name} is an nn.Module class. Nothing was run: write `op = {name}(...)` and name `op`.")
        raise Misuse(f"{name} is a class and not an operation. {typed}")
    if is_custom_op(op):
        return "custom op"
    if is_operator(op):
        return "operator"
    if type(op).__module__.startswith("triton."):
        raise Misuse(f"{name} is a Triton kernel. Nothing was run: name the Python function that launches it.")
    if not callable(op):
        raise Misuse(f"{name} is a {type(op).__name__} and cannot be called. {typed}")
    return "compiled function" if inspect.isbuiltin(op) else "function"


def call_of(op: Any) -> Callable[..., Any]:
    if not (isinstance(op, type) and issubclass(op, torch.autograd.Function)):
        function: Callable[..., Any] = op
        return function
    parameters = _parameters(op)

    def apply(*args: Any, **kwargs: Any) -> Any:  # `apply` takes no keywords
        missing = [name for name in parameters[len(args) :] if name in kwargs]
        return op.apply(*args, *(kwargs[name] for name in missing))  # type: ignore[no-untyped-call]

    return apply if parameters else op.apply


def _parameters(op: type[torch.autograd.Function]) -> list[str]:
    names = [
        name for name, each in inspect.signature(op.forward).parameters.items() if each.kind != each.VAR_POSITIONAL
    ]
    own_context = op.setup_context is torch.autograd.Function.setup_context
    return names[1:] if own_context else names  # the first is `ctx`


def reference_arguments(op: Any) -> int | None:
    """Required arguments of an operation; None: its signature is unknown."""
    if is_custom_op(op):
        op = getattr(op, "_init_fn", op)
    function: Any = getattr(op, "forward", op) if isinstance(op, type) else op
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if isinstance(op, type) and getattr(op, "setup_context", None) is torch.autograd.Function.setup_context:
        parameters = parameters[1:]
    return sum(1 for each in parameters if each.default is each.empty and each.kind in (0, 1))
