"""eager-and-compiled-agree: torch.compile computes what the model computes as it is written.

Loss, answers and gradients of one batch are held against each other, to the rounding of float32; what draws (dropout)
is off. Where they differ, it is asked at which stage: already when the Python code is traced (backend "eager"), when
forward and backward are traced together ("aot_eager"), or in the kernels that are made of it ("inductor"). Then the
parts of the model are compiled one at a time, in the order in which they run, with the inputs that they are given, down
to the smallest that differs; and in that, where it was traced faithfully, the operations.

Where no compiler can be used (inductor needs one for C++, or Triton), it is tried with aot_eager, and said so.
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

from trueloop.claims.claim import Claim
from trueloop.claims.numbers import ROUNDING, Apart, compared, distance, numbers_of, quieted
from trueloop.claims.steps import few
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import tensors_in
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.taps.place import is_users
from trueloop.torch_private.compiler import compile_counts, reset_compiler
from trueloop.usercode.ownership import birthplace, users_classes

__all__ = ["EagerAndCompiledAgree"]

SAMPLES: Final = 8
"""What is compiled does not depend on it."""
STAGES: Final = {
    "eager": "already the traced Python code",
    "aot_eager": "forward and backward as they are traced",
    "inductor": "the kernels that are made of them",
}
"""What torch.compile does, one after the other: the first that differs is where to look."""
LAST: Final = "inductor"
"""What torch.compile ends with, unless told otherwise."""
SECONDS: Final = 20.0
"""For the search of the part that differs: what has not been found by then is left at the smallest part that was."""
OPERATIONS: Final = 64
"""Of a part that are compiled one by one: the smallest part has few."""

TRACED: Final = Cause(
    "the forward asks torch.compiler.is_compiling(), or reads a value that changes between calls: a global, a counter, the time",
    "look for it in the named part; torch.compiler.disable keeps a function as it is",
)
CUSTOM: Final = Cause(
    "an operation of your own says something else of itself than it does: its fake, its backward, what it writes into",
    "torch.library.opcheck(operation, inputs)",
)
KERNEL: Final = Cause(
    "the compiled kernel is wrong", "torch.compile(part, backend='aot_eager') is right then; look in torch's issues"
)
UNSTABLE: Final = Cause(
    "the result hangs on the order of a sum: a small difference of large numbers",
    "the claim precision-agrees; compare in float64",
)


@final
class EagerAndCompiledAgree(Claim):
    name = "eager-and-compiled-agree"
    healthy = f"loss and answers lie less than {ROUNDING:g} of their scale apart, gradients less than ten times that"
    causes: ClassVar[tuple[Cause, ...]] = (TRACED, CUSTOM, KERNEL, UNSTABLE)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        with _quietly():
            return self._tried(_Trial.of(subject), subject.recipe.compile != "off")

    def _tried(self, trial: _Trial, asked: bool) -> Proof:
        whole = trial.whole(LAST)
        backend, note = LAST, ""
        if whole is None:
            backend, note = "aot_eager", f" (inductor cannot be used here: {trial.refused}; tried with aot_eager)"
            whole = trial.whole(backend)
        if whole is None:
            said = f"torch cannot compile this model: {trial.refused}"
            facts: dict[str, object] = {"error": trial.refused}
            return (
                self.fails(said, facts, (CUSTOM, TRACED))
                if asked
                else self.unproved(f"{said}; the recipe does not ask for it", facts)
            )
        facts = whole.facts() | {"backend": backend, "mode": trial.mode, "samples": SAMPLES, **trial.counted}
        if not trial.counted["graphs"]:
            said = "torch.compile leaves the whole model as it is written (no graph was made of it): there is nothing to compare"
            return self.unproved(said, facts)
        if whole.alike:
            breaks = trial.counted["graph_breaks"]
            pieces = f"{trial.counted['graphs']} graph{'s' if trial.counted['graphs'] != 1 else ''}, {breaks} breaks"
            said = f"loss {whole.one:.6g} eager and {whole.two:.6g} compiled; answers at most {whole.answers:.0e} of their scale apart, "
            return self.holds(f"{said}gradients {whole.gradients:.0e}; {pieces}{note}", facts)
        stage = next((each for each in STAGES if each == backend or not _alike(trial.whole(each))), backend)
        part = trial.smallest(stage)
        said = f"{whole.sentence('eager', 'compiled')}; {STAGES[stage]} differ{'s' if stage == 'eager' else ''} (backend '{stage}')"
        said += f"; the smallest part that does is {part.words}{note}"
        cause = {"eager": TRACED, "aot_eager": CUSTOM}.get(stage, KERNEL)
        facts |= {"stage": stage, "part": part.name, "operation": part.operation}
        return self.fails(said, facts, (cause, *(each for each in self.causes if each is not cause)), part.place)


def _alike(apart: Apart | None) -> bool:
    return apart is None or apart.alike


@dataclass(frozen=True)
class _Part:
    """The smallest that was found to differ."""

    name: str
    kind: str
    operation: str = ""
    place: Place | None = None

    @property
    def words(self) -> str:
        within = f", and in it the operation {self.operation}" if self.operation else ""
        return (f"{self.name} ({self.kind})" if self.name else f"the model itself ({self.kind})") + within


@dataclass
class _Trial:
    """A model and a batch, as they are and compiled."""

    parts: Parts
    batch: Any
    mode: str
    refused: str = ""
    """Why it could not be compiled the last time."""
    counted: dict[str, Any] = field(default_factory=dict)
    until: float = 0.0

    @classmethod
    def of(cls, subject: RecipeSubject) -> _Trial:
        parts = subject.parts(compile="off", precision="fp32")
        batch = few(subject.batch(parts), SAMPLES)
        return cls(parts, batch, quieted(parts.model, parts.task, batch))

    def whole(self, backend: str) -> Apart | None:
        """None: it cannot be compiled so."""
        model, task = self.parts.model, self.parts.task
        eager = numbers_of(model, task, self.batch)
        reset_compiler()
        try:
            made = numbers_of(model, task, self.batch, call=torch.compile(model, backend=backend))
        except Exception as error:  # noqa: BLE001 - whatever a compiler throws: it is told
            self.refused = _first_line(error)
            return None
        graphs, breaks = compile_counts()
        self.counted = {"graphs": graphs, "graph_breaks": breaks}
        return compared(eager, made)

    # -- where --

    def smallest(self, backend: str) -> _Part:
        """Down from the whole, into the first part that differs by itself, as long as there is one."""
        self.until = time.monotonic() + SECONDS
        model = self.parts.model
        given = _inputs_of(model, self.batch.inputs)
        name = ""
        while (
            inner := next((each for each in _below(name, given) if self._differs(each, given[each], backend)), None)
        ) is not None:
            name = inner
        module = model.get_submodule(name)
        place = birthplace(model, name) if name else next((place for _, place in users_classes(module)), None)
        inside = next((place for _, place in users_classes(module)), place)
        found = _operation(module, given[name], backend, self.until) if backend != "eager" and name in given else None
        if found is not None:
            return _Part(name, type(module).__name__, found[0], found[1] or inside)
        return _Part(name, type(module).__name__, "", inside)

    def _differs(self, name: str, inputs: tuple[Any, Any], backend: str) -> bool:
        if time.monotonic() > self.until:
            return False
        module = self.parts.model.get_submodule(name)
        reset_compiler()
        try:
            return not _close(
                _run(module, module, inputs), _run(module, torch.compile(module, backend=backend), inputs)
            )
        except Exception as error:  # noqa: BLE001 - a part that cannot be compiled alone is not the one
            self.refused = _first_line(error)
            return False


# -- one part at a time --


def _inputs_of(model: nn.Module, inputs: Any) -> dict[str, tuple[Any, Any]]:
    """What each part is given at its first call, in the order of their beginning; the model itself is ''."""
    given: dict[str, tuple[Any, Any]] = {}

    def hook(name: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, kwargs: Any) -> None:
            given.setdefault(name, (_freed(args), _freed(kwargs)))

        return note

    handles = [module.register_forward_pre_hook(hook(name), with_kwargs=True) for name, module in model.named_modules()]
    buffers = [buffer.clone() for buffer in model.buffers()]
    try:
        with fence(0), torch.no_grad():
            model(inputs)
            for buffer, before in zip(model.buffers(), buffers, strict=True):
                buffer.copy_(before)
    finally:
        for handle in handles:
            handle.remove()
    return given


def _below(name: str, given: dict[str, Any]) -> Iterator[str]:
    """The nearest parts inside that are called themselves: a list of modules is not."""
    inner = [each for each in given if each and each != name and (not name or each.startswith(f"{name}."))]
    return (each for each in inner if not any(each.startswith(f"{other}.") for other in inner))


def _run(module: nn.Module, call: Callable[..., Any], inputs: tuple[Any, Any]) -> list[Tensor | None]:
    """The outputs, and the gradients with respect to inputs and weights."""
    args, kwargs = _freed(inputs[0]), _freed(inputs[1])
    leaves = [each.requires_grad_() for each in tensors_in([args, kwargs]) if each.is_floating_point()]
    leaves += [each for each in module.parameters() if each.requires_grad]
    buffers = [buffer.clone() for buffer in module.buffers()]
    with fence(0):
        outputs = list(tensors_in(call(*_views(args), **_views(kwargs))))
        roots = [each for each in outputs if each.requires_grad]
        ones = [
            torch.linspace(-1, 1, each.numel(), device=each.device, dtype=each.dtype).view_as(each) for each in roots
        ]
        gradients = torch.autograd.grad(roots, leaves, ones, allow_unused=True) if roots and leaves else ()
    with torch.no_grad():
        for buffer, before in zip(module.buffers(), buffers, strict=True):
            buffer.copy_(before)
    return [
        *(each.detach().clone() for each in outputs),
        *(None if each is None else each.detach() for each in gradients),
    ]


def _freed(value: Any) -> Any:
    """Copies, without a graph."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _freed(item) for key, item in value.items()}
    return (
        type(value)(_freed(item) for item in value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
        else value
    )


def _views(value: Any) -> Any:
    """The same through a graph: a layer that works in place may not do so on a leaf."""
    if isinstance(value, Tensor):
        return value * 1 if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _views(item) for key, item in value.items()}
    return (
        type(value)(_views(item) for item in value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
        else value
    )


def _close(one: list[Tensor | None], two: list[Tensor | None]) -> bool:
    if len(one) != len(two):
        return False
    most = max(
        (float(each.abs().max()) for each in one if each is not None and each.numel() and each.is_floating_point()),
        default=0.0,
    )
    pairs = zip(one, two, strict=True)
    return all(
        (a is None) == (b is None) and (a is None or b is None or distance(a, b, most) <= 10 * ROUNDING)
        for a, b in pairs
    )


# -- the operation --


def _operation(
    module: nn.Module, inputs: tuple[Any, Any], backend: str, until: float
) -> tuple[str, Place | None] | None:
    """The first operation of the traced part that, compiled alone, gives something else."""
    calls: list[tuple[fx.Node, Any, Any]] = []

    class Noting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if n.op in ("call_function", "call_method") and len(calls) < OPERATIONS:
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                calls.append((n, _freed(args), _freed(kwargs)))
            return super().run_node(n)

    def noting(graph: fx.GraphModule, example: Any) -> Callable[..., Any]:
        return lambda *given: Noting(graph).run(*given)

    reset_compiler()
    try:
        _run(module, torch.compile(module, backend=noting), inputs)
        for node, args, kwargs in calls:
            if time.monotonic() < until and not _same_alone(node, (args, kwargs), backend):
                return str(node.target), _place_of(node)
    except Exception:  # noqa: BLE001 - an operation that cannot be compiled alone: then the part is what can be named
        return None
    return None


def _same_alone(node: fx.Node, inputs: tuple[Any, Any], backend: str) -> bool:
    def call(*args: Any, **kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    if not any(True for _ in tensors_in(list(inputs))):
        return True
    reset_compiler()
    empty = nn.Module()
    return _close(_run(empty, call, inputs), _run(empty, torch.compile(call, backend=backend), inputs))


def _place_of(node: fx.Node) -> Place | None:
    """The user's line, from what the tracer has noted."""
    for line in reversed(str(node.meta.get("stack_trace") or "").splitlines()):
        head, _, rest = line.strip().partition('", line ')
        if head.startswith('File "') and is_users(head.removeprefix('File "')):
            return Place(head.removeprefix('File "'), int(rest.split(",")[0]))
    return None


# -- torch's own noise --


def _first_line(error: BaseException) -> str:
    """What it says, and what has caused it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    root = error
    while (before := root.__cause__ or root.__context__) is not None:
        root = before
    because = f" ({type(root).__name__}: {str(root).splitlines()[0] if str(root) else ''})" if root is not error else ""
    return f"{type(error).__name__}: {lines[0] if lines else ''}{because}"


@contextmanager
def _quietly() -> Iterator[None]:
    """A compiler warns of what it does not do as fast as it could; afterwards nothing is left compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            reset_compiler()
