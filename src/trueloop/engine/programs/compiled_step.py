"""program=compiled_step: forward, loss and backward of a batch as one compiled function. For CPUs.

`torch.compile` compiles forward and backward separately and checks its guards on each call: on a small model that costs
more than it saves. Here loss and gradients are one function of weights and batch: traced once, compiled once, and
called without anything around it. Before the first step its loss and each gradient are compared with those of the plain
model on one batch.

Gathering the batch, the norm, clipping, the guard and the update stay outside. Batches of another size (the last of an
epoch) and everything that is not a training step (evaluation, the search for non-finite values) use the plain model.

A step that an observer looks at is computed twice, once through the model so that its hooks run. That changes no
number.
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.func import functional_call, functionalize, grad_and_value

from trueloop.data.source import Batch
from trueloop.engine.batches import Batches
from trueloop.engine.call_model import call_model
from trueloop.engine.parts import Parts
from trueloop.engine.programs.eager import Eager, refuse_own_form
from trueloop.engine.programs.hashed_dropout import HashedDropout, draw_seeds
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State
from trueloop.errors import BadRecipe
from trueloop.measure.randomness import fence
from trueloop.torch_private.dispatch import pytree

__all__ = ["CompiledStep", "Compiler", "inductor"]

ROUNDING: Final = 1e-4  # largest relative difference from the model's own: sums in a different order; errors are larger
CANCELLED: Final = (
    1e-2  # of the total norm: smaller gradients are compared with that, since a sum that cancels out is noise
)
_FIX: Final = "Nothing was trained: set program=eager."

Divisor = int | float | Tensor
Shape = tuple[torch.Size, tuple[int, ...], torch.dtype]
Function = Callable[[list[Tensor]], Sequence[Tensor]]
# Takes a graph and its fake inputs; returns the compiled function
Compiler = Callable[[torch.fx.GraphModule, list[Tensor]], Function]


def inductor(graph: torch.fx.GraphModule, places: list[Tensor]) -> Function:
    """torch's compiler, by its inner entry point, which adds nothing around the graph."""
    from trueloop.torch_private.inductor import compile_graph  # lazy: importing it takes seconds

    return compile_graph(graph, places)  # type: ignore[no-any-return]


@final
class CompiledStep(Program):
    """Computes loss and gradients by one compiled function."""

    def __init__(self, parts: Parts, state: State, compiler: Compiler = inductor) -> None:
        self.parts, self.state, self.compiler = parts, state, compiler
        if parts.device.type != "cpu":
            raise BadRecipe(f"program=compiled_step needs a CPU, and this run uses {parts.device}. {_FIX}")
        if not isinstance(parts.batches, Batches):
            raise BadRecipe(f"program=compiled_step needs samples by index, and these come from a stream. {_FIX}")
        self._eager = Eager(parts, state)
        trained = {id(parameter) for parameter in parts.parameters}
        named = [*parts.model.named_parameters(), *parts.model.named_buffers()]
        self._names = [name for name, tensor in named if id(tensor) in trained]
        self._fixed_names = [name for name, tensor in named if id(tensor) not in trained]
        tensors = dict(named)
        self._trained = [tensors[name] for name in self._names]
        self._fixed = [tensors[name] for name in self._fixed_names]
        self._shapes: list[Shape] = []
        self._unreached: set[int] = set()  # parameters that the loss does not depend on: their gradient is None
        self._shared: set[int] = set()  # gradients that share memory with another tensor: returned as copies
        self._divisors: dict[int | float, Tensor] = {}
        self._without_mkldnn = False
        self._call: Function = _not_prepared

    # -- in each step --

    def takes(self, micro: Batch) -> bool:
        """Does it have the size that was compiled?"""
        return [_shape(leaf) for leaf in pytree.tree_leaves(tuple(micro))] == self._shapes

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        if not self.takes(micro):
            return self._eager.backward(micro, divisor)
        if observed:
            self._run_hooks(micro, divisor)
        loss, gradients = self._computed(micro, divisor, draw_seeds())
        for parameter, gradient in zip(self._trained, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return loss

    def _computed(self, micro: Batch, divisor: Divisor, seeds: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        leaves = pytree.tree_leaves(tuple(micro))
        with torch.no_grad(), self._matmul_backend():
            loss, *found = self._call([seeds, self._divisor(divisor), *self._trained, *self._fixed, *leaves])
        gradients: list[Tensor | None] = list(found)
        for number in self._shared:
            gradients[number] = found[number].clone()
        for number in self._unreached:
            gradients[number] = None
        return loss, gradients

    def _divisor(self, divisor: int | float | Tensor) -> Tensor:
        if isinstance(divisor, Tensor):
            return divisor.detach().float().reshape(())
        if divisor not in self._divisors:
            self._divisors[divisor] = torch.tensor(float(divisor))
        return self._divisors[divisor]

    @contextmanager
    def _matmul_backend(self) -> Iterator[None]:
        """On ARM, oneDNN computes products with a transposed matrix and gains nothing from a second core."""
        before = torch.backends.mkldnn.enabled
        if self._without_mkldnn:
            torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = before

    def _run_hooks(self, micro: Batch, divisor: int | float | Tensor) -> None:
        """The same step through the model, so that hooks run. Random states, buffers and gradients stay as they are."""
        before = [parameter.grad for parameter in self._trained]
        with fence(), self.parts.guard.buffers.preserved():
            self._through_model(micro, divisor)
        for parameter, gradient in zip(self._trained, before, strict=True):
            parameter.grad = gradient

    def _through_model(self, micro: Batch, divisor: int | float | Tensor) -> Tensor:
        for parameter in self._trained:
            parameter.grad = None
        loss = self.parts.task.loss(call_model(self.parts.model, micro.inputs), micro).total / divisor
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    # -- before the first step --

    def prepare(self) -> None:
        parts = self.parts
        batch = parts.batches.batch_at(self.state.epoch, 0)
        if batch is None or self._shapes:
            return
        micro = parts.batches.micros(batch)[0]
        refuse_own_form(parts, micro)
        targets = parts.task.count_of(micro)
        with fence(), parts.guard.buffers.preserved():
            seeds = draw_seeds()
            leaves, tree = pytree.tree_flatten(tuple(micro))
            inputs = [seeds, self._divisor(targets), *self._trained, *self._fixed, *leaves]
            self._call = self._compiled(self._function(tree), [tensor.detach() for tensor in inputs])
            self._shapes = [_shape(leaf) for leaf in leaves]
            self._check(micro, targets, seeds)
        if self._fixed:
            parts.guard.buffers.ignore_versions()  # compiled code does not increase the version of what it writes

    def _function(self, tree: Any) -> Callable[..., tuple[Tensor, ...]]:
        """Loss and gradients, as a function of everything they depend on."""
        parts, first = self.parts, len(self._names)
        last = first + len(self._fixed_names)

        def function(seeds: Tensor, divisor: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
            inputs, targets = pytree.tree_unflatten(list(tensors[last:]), tree)

            def loss_of(trained: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
                # Copies, since a forward may write into them: running statistics.
                fixed = [tensor.clone() for tensor in tensors[first:last]]
                state = dict(zip([*self._names, *self._fixed_names], [*trained, *fixed], strict=True))
                with HashedDropout(seeds):
                    output = call_model(partial(functional_call, parts.model, state), inputs, parts.model)
                    loss = parts.task.loss(output, Batch(inputs, targets)).total / divisor
                return loss, fixed

            gradients, (loss, fixed) = grad_and_value(loss_of, has_aux=True)(tensors[:first])
            for tensor, after in zip(tensors[first:last], fixed, strict=True):
                tensor.copy_(after)
            return loss, *gradients

        return function

    def _compiled(self, function: Callable[..., Any], inputs: list[Tensor]) -> Function:
        from trueloop.torch_private.inductor import trace_graph  # lazy: importing it takes seconds

        try:
            graph = _without_idle_copies(trace_graph(functionalize(function), inputs))
            convolves = any("convolution" in str(node.target) for node in graph.graph.nodes)
            self._without_mkldnn = platform.machine() in ("aarch64", "arm64") and not convolves
            fake = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
            with torch.no_grad():
                return self.compiler(graph, fake)
        except Exception as error:
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise BadRecipe(f"program=compiled_step cannot compile model and loss as one: {reason} {_FIX}") from error

    def _check(self, micro: Batch, targets: int | Tensor, seeds: Tensor) -> None:
        """The same batch and the same dropout, through the plain model and compiled."""
        with fence(), self.parts.guard.buffers.preserved(), HashedDropout(seeds):
            loss = self._through_model(micro, targets)
        expected = [parameter.grad for parameter in self._trained]
        for parameter in self._trained:
            parameter.grad = None
        self._unreached = {number for number, gradient in enumerate(expected) if gradient is None}
        if any(gradient is not None and gradient.is_sparse for gradient in expected):
            raise BadRecipe(f"program=compiled_step needs dense gradients, and this model has sparse ones. {_FIX}")
        with fence():
            computed, gradients = self._computed(micro, targets, seeds)
        self._find_shared(gradients, micro)
        norm = torch.stack([gradient.norm() for gradient in expected if gradient is not None]).norm()
        pairs = zip(["the loss", *self._names], [loss, *expected], [computed, *gradients], strict=True)
        for name, plain, compiled in pairs:
            if plain is None or compiled is None:
                continue
            scale = plain.norm() if name == "the loss" else torch.maximum(plain.norm(), norm * CANCELLED)
            if not (compiled - plain).norm() <= ROUNDING * scale and bool(torch.isfinite(plain).all()):
                what = name if name == "the loss" else f"the gradient of {name}"
                raise BadRecipe(
                    f"program=compiled_step was refused: {what} differs from the model's own by "
                    f"{(compiled - plain).norm():.3g}. {_FIX}"
                )

    def _find_shared(self, gradients: list[Tensor | None], micro: Batch) -> None:
        others = (*pytree.tree_leaves(tuple(micro)), *self._trained, *self._fixed)
        seen = {leaf.untyped_storage().data_ptr() for leaf in others}
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                memory = gradient.untyped_storage().data_ptr()
                if memory in seen:
                    self._shared.add(number)
                seen.add(memory)


def _shape(leaf: Any) -> Shape:
    if not isinstance(leaf, Tensor):
        raise BadRecipe(f"program=compiled_step needs batches of tensors; this has a {type(leaf).__name__}. {_FIX}")
    return leaf.shape, leaf.stride(), leaf.dtype


def _without_idle_copies(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Buffers that the forward did not write need not be copied back."""
    aten = torch.ops.aten
    for node in list(graph.graph.nodes):
        if node.target is aten.copy_.default:
            into, source = node.args
            if source.target is aten.clone.default and source.args[0] is into:
                graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _not_prepared(inputs: list[Tensor]) -> Sequence[Tensor]:
    raise RuntimeError("Call prepare() first.")
