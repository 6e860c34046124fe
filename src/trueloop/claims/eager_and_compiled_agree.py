"""eager-and-compiled-agree: torch.compile computes the same as eager mode.

Loss, outputs and gradients of one batch are compared, within float32 rounding; dropout is off. Of a difference, the
stage is found: tracing of the Python code (backend "eager"), tracing of forward and backward ("aot_eager"), or the
generated kernels ("inductor"). Then the submodules are compiled one at a time, in the order of their calls and with
their recorded inputs, down to the smallest that differs; and in that, if its tracing is right, the operations.

Where inductor cannot be used (it needs a C++ compiler or Triton), aot_eager is used instead, and the result says so.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, fx, nn

from trueloop.claims.batch_result import (
    DRAWS,
    ROUNDING,
    ResultDifference,
    compare,
    compute_result,
    disable_randomness,
    relative_difference,
)
from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import first_samples
from trueloop.data.source import Batch, map_tensors, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.engine.layers import remove_after
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.model import restored_buffers
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.taps.place import is_users
from trueloop.torch_private.compiler import compile_counts, reset_compiler
from trueloop.usercode.ownership import layer_place, users_classes

__all__ = ["EagerAndCompiledAgree"]

SAMPLES: Final = 8
# Backends in the order of what torch.compile does: the first that differs is where to look
STAGES: Final = {
    "eager": "the traced Python code",
    "aot_eager": "the traced forward and backward",
    "inductor": "the generated code",
}
DEFAULT: Final = "inductor"  # the backend of torch.compile
SECONDS: Final = 20.0  # for the search of the smallest part
Inputs = tuple[Any, Any]  # args and kwargs
_Operation = tuple[str, Place | None]  # its name and line
OPERATIONS: Final = 64  # of a part that are compiled one by one

TRACED = Cause(
    "the forward calls torch.compiler.is_compiling(), or reads a value that changes: a global, a counter, the time",
    "look for it in the named part; torch.compiler.disable keeps a function eager",
)
CUSTOM = Cause(
    "a custom operation is registered with a wrong fake implementation, backward, or list of mutated arguments",
    "torch.library.opcheck(operation, inputs)",
)
KERNEL = Cause("the compiled kernel is wrong", "`torch.compile(part, backend='aot_eager')`; search PyTorch's issues")
UNSTABLE = Cause(
    "the order of a sum decides: a small difference of large numbers", "compare in float64; precision-agrees"
)


@final
class EagerAndCompiledAgree(Claim):
    name = "eager-and-compiled-agree"
    healthy = f"loss and outputs differ by less than {ROUNDING:g} of their scale, gradients by less than ten times that"
    causes: ClassVar[tuple[Cause, ...]] = (TRACED, CUSTOM, KERNEL, UNSTABLE)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        with _no_warnings():
            parts = subject.parts(compile="off", precision="fp32")
            batch = first_samples(subject.batch(parts), SAMPLES)
            trial = _Trial(parts, batch, disable_randomness(parts.model, parts.task, batch))
            return self._result(trial, subject.recipe.compile != "off")

    def _result(self, trial: _Trial, compiled_recipe: bool) -> Proof:
        backend, note = DEFAULT, ""
        result = trial.compare(backend)
        if result is None:
            backend, note = "aot_eager", f" (inductor cannot be used here: {trial.error}; tested with aot_eager)"
            result = trial.compare(backend)
        if result is None:
            said, evidence = f"torch cannot compile this model: {trial.error}", {"error": trial.error}
            if compiled_recipe:
                return self.fails(said, evidence, (CUSTOM, TRACED))
            return self.unproved(f"{said}; the recipe does not use compile", evidence)
        facts = result.evidence() | {"backend": backend, "mode": trial.mode, "samples": SAMPLES, **trial.counts}
        graphs, breaks = trial.counts["graphs"], trial.counts["graph_breaks"]
        if not graphs:
            said = "torch.compile leaves the complete model eager (no graph was made): there is nothing to compare"
            return self.unproved(said, facts)
        if result.equal:
            pieces = f"{graphs} graph{'s' if graphs != 1 else ''}, {breaks} breaks"
            return self.holds(f"{result.agreement('eager', 'compiled')}; {pieces}{note}", facts)
        if trial.mode == DRAWS:
            said = "the forward draws random numbers, in eval mode too, and compiled code draws different ones"
            return self.unproved(f"not applicable: {said}", facts)
        stages = (each for each in STAGES if each == backend or not trial.agrees(each))
        stage = next(stages, backend)
        part = trial.smallest_part(stage)
        said = f"{result.sentence('eager', 'compiled')}; {STAGES[stage]} differs (backend '{stage}')"
        said += f"; the smallest part that differs is {part.words}{note}"
        facts |= {"stage": stage, "part": part.name, "operation": part.operation}
        cause = {"eager": TRACED, "aot_eager": CUSTOM}.get(stage, KERNEL)
        return self.fails(said, facts, self.likely_first(cause), part.place)


@dataclass(frozen=True)
class _Part:
    """The smallest part that differs."""

    name: str
    kind: str
    operation: str = ""
    place: Place | None = None

    @property
    def words(self) -> str:
        within = f", and in it the operation {self.operation}" if self.operation else ""
        return f"{self.name or 'the model itself'} ({self.kind}){within}"


@dataclass
class _Trial:
    """A model and a batch, eager and compiled."""

    parts: Parts
    batch: Batch
    mode: str
    error: str = ""  # of the last compilation that failed
    counts: dict[str, int] = field(default_factory=dict)
    deadline: float = 0.0

    def compare(self, backend: str) -> ResultDifference | None:
        """None: it cannot be compiled with this backend."""
        model, task = self.parts.model, self.parts.task
        eager = compute_result(model, task, self.batch)
        reset_compiler()
        try:
            compiled = compute_result(model, task, self.batch, call=torch.compile(model, backend=backend))
        except Exception as error:  # noqa: BLE001 - a compiler may raise anything; it is reported
            self.error = _first_line(error)
            return None
        graphs, breaks = compile_counts()
        self.counts = {"graphs": graphs, "graph_breaks": breaks}
        return compare(eager, compiled)

    def agrees(self, backend: str) -> bool:
        result = self.compare(backend)
        return result is None or result.equal

    # -- where --

    def smallest_part(self, backend: str) -> _Part:
        """From the model down into the first submodule that differs alone, as long as there is one."""
        self.deadline = time.monotonic() + SECONDS
        model = self.parts.model
        inputs = _recorded_inputs(model, self.batch.inputs)
        name = ""
        inner: str | None = name
        while inner is not None:
            name = inner
            below = (each for each in _below(name, inputs) if self._differs(each, inputs[each], backend))
            inner = next(below, None)
        module = model.get_submodule(name)
        kind, place = type(module).__name__, layer_place(model, name) if name else None
        place = next((place for _, place in users_classes(module)), place)
        if backend != "eager" and name in inputs:
            found = _differing_operation(module, inputs[name], backend, self.deadline)
            if found is not None:
                return _Part(name, kind, found[0], found[1] or place)
        return _Part(name, kind, "", place)

    def _differs(self, name: str, inputs: tuple[Any, Any], backend: str) -> bool:
        if time.monotonic() > self.deadline:
            return False
        module = self.parts.model.get_submodule(name)
        reset_compiler()
        try:
            compiled = torch.compile(module, backend=backend)
            return not _close(_run(module, module, inputs), _run(module, compiled, inputs))
        except Exception as error:  # noqa: BLE001 - a part that cannot be compiled alone is not the one
            self.error = _first_line(error)
            return False


# -- one part at a time --


def _recorded_inputs(model: nn.Module, inputs: Any) -> dict[str, tuple[Any, Any]]:
    """The inputs of each submodule at its first call, in the order of the calls; the model itself is ''."""
    recorded: dict[str, tuple[Any, Any]] = {}

    def hook(name: str) -> Callable[..., None]:
        def record(module: nn.Module, args: Any, kwargs: Any) -> None:
            recorded.setdefault(name, (_copies(args), _copies(kwargs)))

        return record

    hooks = (module.register_forward_pre_hook(hook(name), with_kwargs=True) for name, module in model.named_modules())
    with remove_after(hooks), fence(0), torch.no_grad(), restored_buffers(model):
        call_model(model, inputs)
    return recorded


def _below(name: str, inputs: dict[str, Any]) -> Iterator[str]:
    """The nearest submodules that are called themselves: a ModuleList is not."""
    inner = [each for each in inputs if each and each != name and (not name or each.startswith(f"{name}."))]
    return (each for each in inner if not any(each.startswith(f"{other}.") for other in inner))


def _run(module: nn.Module, call: Callable[..., Any], inputs: tuple[Any, Any]) -> list[Tensor | None]:
    """The outputs, and the gradients of inputs and weights."""
    args, kwargs = _copies(inputs[0]), _copies(inputs[1])
    leaves = [each.requires_grad_() for each in tensors_in([args, kwargs]) if each.is_floating_point()]
    leaves += [each for each in module.parameters() if each.requires_grad]
    with fence(0), restored_buffers(module):
        outputs = list(tensors_in(call(*_non_leaves(args), **_non_leaves(kwargs))))
        roots = [each for each in outputs if each.requires_grad]
        seeds = [torch.linspace(-1, 1, each.numel(), device=each.device, dtype=each.dtype) for each in roots]
        seeds = [seed.view_as(root) for seed, root in zip(seeds, roots, strict=True)]
        gradients = torch.autograd.grad(roots, leaves, seeds, allow_unused=True) if roots and leaves else ()
        values = [each.detach().clone() for each in outputs]
    return [*values, *(None if each is None else each.detach() for each in gradients)]


def _copies(value: Any) -> Any:
    """Without a graph."""
    return map_tensors(value, lambda tensor: tensor.detach().clone())


def _non_leaves(value: Any) -> Any:
    """A layer that works in place may not do so on a leaf."""
    return map_tensors(value, lambda tensor: tensor * 1 if tensor.is_floating_point() else tensor)


def _close(one: list[Tensor | None], two: list[Tensor | None]) -> bool:
    if len(one) != len(two):
        return False
    floats = (each for each in one if each is not None and each.numel() and each.is_floating_point())
    scale = max((float(each.abs().max()) for each in floats), default=0.0)
    for a, b in zip(one, two, strict=True):
        if a is None or b is None:
            if a is not b:
                return False
        elif relative_difference(a, b, scale) > 10 * ROUNDING:
            return False
    return True


# -- the operation --


def _differing_operation(module: nn.Module, inputs: Inputs, backend: str, deadline: float) -> _Operation | None:
    """The first operation of the traced part that differs when compiled alone."""
    calls: list[tuple[fx.Node, Any, Any]] = []

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if n.op in ("call_function", "call_method") and len(calls) < OPERATIONS:
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                calls.append((n, _copies(args), _copies(kwargs)))
            return super().run_node(n)

    def recording(graph: fx.GraphModule, example: Any) -> Callable[..., Any]:
        return lambda *inputs: Recorder(graph).run(*inputs)

    reset_compiler()
    try:
        _run(module, torch.compile(module, backend=recording), inputs)
        for node, args, kwargs in calls:
            if time.monotonic() < deadline and not _agrees_alone(node, (args, kwargs), backend):
                return str(node.target), _line_of(node)
    except Exception:  # noqa: BLE001 - an operation that cannot be compiled alone: the part is named instead
        return None
    return None


def _agrees_alone(node: fx.Node, inputs: tuple[Any, Any], backend: str) -> bool:
    def call(*args: Any, **kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    if next(tensors_in(list(inputs)), None) is None:
        return True
    reset_compiler()
    empty = nn.Module()
    return _close(_run(empty, call, inputs), _run(empty, torch.compile(call, backend=backend), inputs))


def _line_of(node: fx.Node) -> Place | None:
    """The user's line, from the tracer."""
    for line in reversed(str(node.meta.get("stack_trace") or "").splitlines()):
        head, _, rest = line.strip().partition('", line ')
        if head.startswith('File "') and is_users(head.removeprefix('File "')):
            return Place(head.removeprefix('File "'), int(rest.split(",")[0]))
    return None


# -- messages of the compiler --


def _first_line(error: BaseException) -> str:
    """Its message, and that of the root cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    root = error
    while (before := root.__cause__ or root.__context__) is not None:
        root = before
    because = f" ({type(root).__name__}: {str(root).partition(chr(10))[0]})" if root is not error else ""
    return f"{type(error).__name__}: {lines[0] if lines else ''}{because}"


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Without the compiler's performance warnings; resets the compiler afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            reset_compiler()
