"""program=compiled_step: forward, loss and backward of a batch as one compiled function. For CPUs.

`torch.compile` compiles forward and backward apart and checks on each call whether it may: on a small model that costs
more than it saves. Here loss and gradients are one function of weights and batch: traced once, compiled once, and
called with what it takes and nothing around it. Before the first step it is proved on a batch: the loss and each
gradient against those of the model as it is.

What stays outside: gathering the batch, the norm, clipping, the guard, the update. Batches of another size (the last of
an epoch) and everything that is not a training step (evaluation, the autopsy) go through the model as it is.

A step that somebody looks into is computed twice, once through the model so that its layers can be seen: the looks
change no number.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import Tensor
from torch.func import functional_call, functionalize, grad_and_value

from trueloop.data.source import Batch
from trueloop.engine.programs.hashed_dropout import HashedDropout, draw_seeds
from trueloop.errors import BadRecipe
from trueloop.measure.randomness import fence
from trueloop.torch_private.dispatch import pytree

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["CompiledStep", "Compiler", "inductor"]

ROUNDING: Final = 1e-4
"""How far a loss or a gradient may lie from the model's own, as a share of it: sums in another order; what is wrong is
wrong by more."""
CANCELLED: Final = 1e-2
"""Gradients shorter than this share of the whole one are held to it: a sum that cancels out (a bias before a batch
norm) is noise."""
_CURE: Final = "Nothing was trained: give program=eager."

Shape = tuple[torch.Size, tuple[int, ...], torch.dtype]
Function = Callable[[list[Tensor]], Sequence[Tensor]]
Compiler = Callable[[torch.fx.GraphModule, list[Tensor]], Function]
"""A graph and what stands for its inputs; gives what is called."""


def inductor(graph: torch.fx.GraphModule, places: list[Tensor]) -> Function:
    """torch's compiler, by its inner entry, which takes a graph and puts nothing around it."""
    from trueloop.torch_private.inductor import compile_graph  # lazy: importing it takes seconds

    return compile_graph(graph, places)  # type: ignore[no-any-return]


@final
class CompiledStep:
    """Computes loss and gradients for a loop."""

    def __init__(self, loop: Loop, compiler: Compiler = inductor) -> None:
        self.loop, self.compiler = loop, compiler
        if loop.device.type != "cpu":
            raise BadRecipe(f"program=compiled_step is for a CPU, and this run is on {loop.device}. {_CURE}")
        learning = {id(parameter) for parameter in loop.parameters}
        named = [*loop.model.named_parameters(), *loop.model.named_buffers()]
        self._names = [name for name, tensor in named if id(tensor) in learning]
        self._fixed = [name for name, tensor in named if id(tensor) not in learning]
        tensors = dict(named)
        self._learning, self._rest = [tensors[name] for name in self._names], [tensors[name] for name in self._fixed]
        self._shapes: list[Shape] = []
        self._without: set[int] = set()
        """Parameters that the loss does not reach: their gradient is none, not zero."""
        self._shared: set[int] = set()
        """Gradients that are another's memory: given out as copies, as somebody may change one in place."""
        self._divisors: dict[int, Tensor] = {}
        self._plain_products = False
        self._call: Function = _not_built

    # -- in each step --

    def takes(self, micro: Batch) -> bool:
        """Is it of the size that was compiled?"""
        return [_shape(leaf) for leaf in pytree.tree_leaves(tuple(micro))] == self._shapes

    def backward(self, micro: Batch, targets: int | Tensor, *, looked: bool = False) -> Tensor:
        """The loss divided by the number of targets; its gradients are added to those that are there. `looked`: by
        somebody with hooks."""
        if looked:
            self._shown(micro, targets)
        loss, gradients = self._computed(micro, targets, draw_seeds())
        for parameter, gradient in zip(self._learning, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return loss

    def _computed(self, micro: Batch, targets: int | Tensor, numbers: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        leaves = pytree.tree_leaves(tuple(micro))
        with torch.no_grad(), self._products():
            loss, *found = self._call([numbers, self._divisor(targets), *self._learning, *self._rest, *leaves])
        gradients: list[Tensor | None] = list(found)
        for number in self._shared:
            gradients[number] = found[number].clone()
        for number in self._without:
            gradients[number] = None
        return loss, gradients

    def _divisor(self, targets: int | Tensor) -> Tensor:
        if isinstance(targets, Tensor):
            return targets.detach().float().reshape(())
        if targets not in self._divisors:
            self._divisors[targets] = torch.tensor(float(targets))
        return self._divisors[targets]

    @contextmanager
    def _products(self) -> Iterator[None]:
        """On ARM, oneDNN takes products with a transposed matrix, as each layer's forward is, and gains nothing from a
        second core."""
        before = torch.backends.mkldnn.enabled
        if self._plain_products:
            torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = before

    def _shown(self, micro: Batch, targets: int | Tensor) -> None:
        """The same step through the model, for those who look at its layers. It leaves no trace: no draw, no statistic,
        no gradient."""
        before = [parameter.grad for parameter in self._learning]
        with fence(), self.loop.guard.statistics.kept():
            self._by_the_model(micro, targets)
        for parameter, gradient in zip(self._learning, before, strict=True):
            parameter.grad = gradient

    def _by_the_model(self, micro: Batch, targets: int | Tensor) -> Tensor:
        for parameter in self._learning:
            parameter.grad = None
        loss = self.loop.task.loss_sum(self.loop.model(micro.inputs), micro.targets) / targets
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    # -- before the first step --

    def build(self) -> None:
        """Traces, compiles and proves it. Raises BadRecipe, with the reason, if that cannot be. No number of the run is
        changed."""
        loop = self.loop
        batch = loop.batches.batch_at(loop.state.epoch, 0)
        if batch is None or self._shapes:
            return
        micro = loop.batches.micros(batch)[0]
        targets = loop.task.count(micro.targets)
        with fence(), loop.guard.statistics.kept():
            numbers = draw_seeds()
            leaves, tree = pytree.tree_flatten(tuple(micro))
            given = [numbers, self._divisor(targets), *self._learning, *self._rest, *leaves]
            self._call = self._compiled(self._function(tree), [tensor.detach() for tensor in given])
            self._shapes = [_shape(leaf) for leaf in leaves]
            self._prove(micro, targets, numbers)
        if self._rest:
            loop.guard.statistics.all_change()  # what compiled code writes is not counted as a change

    def _function(self, tree: Any) -> Callable[..., tuple[Tensor, ...]]:
        """Loss and gradients, as a function of everything they depend on."""
        loop, learn = self.loop, len(self._names)
        rest = learn + len(self._fixed)

        def function(numbers: Tensor, divisor: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
            inputs, targets = pytree.tree_unflatten(list(tensors[rest:]), tree)

            def loss_of(learning: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
                # Copies, as a forward may write into them: running statistics.
                fixed = [tensor.clone() for tensor in tensors[learn:rest]]
                state = dict(zip([*self._names, *self._fixed], [*learning, *fixed], strict=True))
                with HashedDropout(numbers):
                    loss = loop.task.loss_sum(functional_call(loop.model, state, (inputs,)), targets) / divisor
                return loss, fixed

            gradients, (loss, fixed) = grad_and_value(loss_of, has_aux=True)(tensors[:learn])
            for tensor, after in zip(tensors[learn:rest], fixed, strict=True):
                tensor.copy_(after)
            return loss, *gradients

        return function

    def _compiled(self, function: Callable[..., Any], given: list[Tensor]) -> Function:
        from trueloop.torch_private.inductor import trace_graph  # lazy: importing it takes seconds

        try:
            graph = _without_idle_copies(trace_graph(functionalize(function), given))
            self._plain_products = platform.machine() in ("aarch64", "arm64") and not _convolves(graph)
            with torch.no_grad():
                return self.compiler(
                    graph, [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
                )
        except Exception as error:
            said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise BadRecipe(
                f"program=compiled_step cannot compile this model and its loss as one function: {said} {_CURE}"
            ) from error

    def _prove(self, micro: Batch, targets: int | Tensor, numbers: Tensor) -> None:
        """The same batch, the same draws: through the model as it is, and compiled."""
        with fence(), self.loop.guard.statistics.kept(), HashedDropout(numbers):
            loss = self._by_the_model(micro, targets)
        expected = [parameter.grad for parameter in self._learning]
        for parameter in self._learning:
            parameter.grad = None
        self._without = {number for number, gradient in enumerate(expected) if gradient is None}
        if any(gradient is not None and gradient.is_sparse for gradient in expected):
            raise BadRecipe(f"program=compiled_step computes dense gradients, and this model has sparse ones. {_CURE}")
        with fence():
            computed, gradients = self._computed(micro, targets, numbers)
        self._note_shared(gradients, micro)
        length = torch.stack([gradient.norm() for gradient in expected if gradient is not None]).norm()
        pairs = zip(["the loss", *self._names], [loss, *expected], [computed, *gradients], strict=True)
        for name, mine, its in pairs:
            if mine is None or its is None:
                continue
            allowed = ROUNDING * (mine.norm() if name == "the loss" else torch.maximum(mine.norm(), length * CANCELLED))
            if not (its - mine).norm() <= allowed and bool(torch.isfinite(mine).all()):
                what = name if name == "the loss" else f"the gradient of {name}"
                raise BadRecipe(
                    f"program=compiled_step was refused: {what} is not the model's own, but {(its - mine).norm():.3g} away. {_CURE}"
                )

    def _note_shared(self, gradients: list[Tensor | None], micro: Batch) -> None:
        seen = {
            leaf.untyped_storage().data_ptr()
            for leaf in (*pytree.tree_leaves(tuple(micro)), *self._learning, *self._rest)
        }
        for number, gradient in enumerate(gradients):
            if gradient is None:
                continue
            place = gradient.untyped_storage().data_ptr()
            if place in seen:
                self._shared.add(number)
            seen.add(place)


def _shape(leaf: Any) -> Shape:
    if not isinstance(leaf, Tensor):
        raise BadRecipe(
            f"program=compiled_step takes batches of tensors, and this one holds a {type(leaf).__name__}. {_CURE}"
        )
    return leaf.shape, leaf.stride(), leaf.dtype


def _without_idle_copies(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """What nobody has written into need not be copied back."""
    aten = torch.ops.aten
    for node in list(graph.graph.nodes):
        if (
            node.target is aten.copy_.default
            and node.args[1].target is aten.clone.default
            and node.args[1].args[0] is node.args[0]
        ):
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _convolves(graph: torch.fx.GraphModule) -> bool:
    return any("convolution" in str(node.target) for node in graph.graph.nodes)


def _not_built(given: list[Tensor]) -> Sequence[Tensor]:
    raise RuntimeError("build() comes first.")
