"""Events of the training loop, so that the rules of `check` also check `trueloop train`.

The observer inspects the first steps, then one step in `log_every`, and those of the layer statistics. Every other step
costs three integer comparisons. Results stay on the device, or are copied asynchronously, until a step at which the
host synchronizes anyway: one of the first three, or one that logs metrics.
"""

from __future__ import annotations

import inspect
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn

from trueloop.engine.accounts import Accounts, Units
from trueloop.engine.batches import Window
from trueloop.engine.layers import LayerLook, Reading, during_forward
from trueloop.engine.loss_facts import ACTIVATIONS, Activation, loss_facts
from trueloop.engine.row_schedule import metrics_schedule, row_interval, statistics_schedule
from trueloop.event import SCALE_FREE, Backward, EpochStarted, Event, GradientsMeasured, Place, RunStarted, Stepped
from trueloop.hook import Row
from trueloop.measure.model import model_seen
from trueloop.measure.norms import OWNERS, Weight, in_running_order, layer_gradients, norms, weights_of
from trueloop.measure.tensors import dense
from trueloop.usercode.ownership import class_place, is_users, layer_place

if TYPE_CHECKING:
    from trueloop.engine.parts import Parts
    from trueloop.engine.state import State

__all__ = ["EngineObserver"]

EARLY: Final = 16  # First steps, which are all inspected: the rule on diverging losses needs the first thirteen
APART: Final = 10  # Least number of steps between two inspected steps after that, however often metrics are logged
MEASURED: Final = 3  # First steps whose gradient norms are measured
MEASURED_APART: Final = 25  # least steps between two measurements after that: the rules compare different moments
MILESTONES: Final = (5, 10)  # Steps of this process after which the parameters are accounted for
LOSSES, LOSSES_COMPILED = 2, 6  # first steps whose loss facts are collected; a compiled model shows only values


class _Glimpse(NamedTuple):
    """The facts of one inspected step."""

    before: list[Event]
    backward: Backward  # Its loss is filled in later
    stepped: Stepped | None  # None: the update was skipped
    after: list[Event]
    measured: bool
    layers: tuple[
        tuple[str, int, int], ...
    ]  # name and size of each weight, from the input on, and its gradient's index
    numbers: Tensor  # The loss, the norm, and of a measured step the norms of gradients and weights: on the host, or
    # being copied there


def _filled(glimpse: _Glimpse, model: str) -> Iterator[Event]:
    """The events of a step, with the values that have arrived on the host."""
    loss, norm, *numbers = glimpse.numbers.tolist()
    count = len(numbers) - len(glimpse.layers)
    gradients, weights = numbers[:count], numbers[count:]
    yield from glimpse.before
    yield replace(glimpse.backward, loss=loss)
    if glimpse.stepped is not None and math.isfinite(norm):  # otherwise the device skipped the update
        step = glimpse.stepped
        if glimpse.measured and gradients:
            named = [(name, size) for name, size, _ in glimpse.layers]
            layers = layer_gradients(named, [gradients[place] for _, _, place in glimpse.layers], weights)
            rate = max(step.learning_rates)
            total = math.hypot(*gradients)
            yield GradientsMeasured(step.step, None, 0, step.index, model, layers, total, step.clipped, rate)
        yield step
    yield from glimpse.after


@final
class EngineObserver:
    """Called three times per step; inspects some steps. It uses no random numbers, changes nothing, keeps no tensor."""

    def __init__(self, loop: Parts, state: State, *, replays: bool = False) -> None:
        self.loop, self.model, self.state = loop, loop.model, state
        self.began = self.next = state.step
        self.rows = metrics_schedule(loop.recipe.log_every, replays=replays)
        self.statistics = statistics_schedule(loop.recipe.statistics_every, replays=replays)
        self.lines = self.statistics.every if replays else row_interval(loop.recipe.log_every)
        """Most steps between two inspected steps. With CUDA graphs an inspected step costs as much as twenty."""
        self.compiled = _is_compiled(loop)
        self._step = -1  # The step that is being inspected; -1: none
        self._last = self._measured = -MEASURED_APART
        self._events: list[Event] = []
        # A resumed run that replays CUDA graphs inspects the same steps as an uninterrupted run: an inspected step runs
        # without the graph, which may round differently.
        blind = loop.strategy.in_parts or loop.recipe.step is not None
        again = (replays and self.began > 0) or blind
        accounts = None if again else Accounts(self.model, loop.optimizer, compiled=self.compiled)
        self._accounts: Accounts | None = accounts
        self._units = Units(self.model)
        self._order: dict[nn.Module, int] = {}  # Layers in the order of their first forward call
        self._activations: list[Activation] = []
        self._layers: LayerLook | None = None
        self._readings: list[Reading] = []
        self._glimpses: list[_Glimpse] = []
        self._introduced = self._noted = False
        self._epochs = 0
        self._remove: Callable[[], None] = _nothing
        self._loss = self._lengths = torch.zeros(0)
        self._weights: list[Weight] = []  # of the step that is being inspected, with their gradients
        if again:
            self.next = self._after(self.began - 1)
        if blind:  # a model of which each process has a part; a step of the user's own, which `check` observes
            self.next = loop.total_steps

    # -- called by the loop --

    def begin(self, window: Window) -> None:
        """Before the forward."""
        if self.state.step >= self.next:
            self._begin(window)

    @property
    def looking(self) -> bool:
        """True while the current step is inspected."""
        return self._step >= 0

    def next_look(self) -> int:
        """The next step to inspect."""
        return self.next

    def gradients(self, loss: Tensor) -> None:
        """After the backward, before clipping and the update. `loss`: the loss of the whole step."""
        if self._step >= 0:
            self._look_at_gradients(loss)

    def updated(self, norm: Tensor, taken: bool) -> None:
        """After the update. `norm`: of the whole gradient before clipping."""
        if self._step >= 0:
            self._conclude(norm, taken)

    def tell(self) -> None:
        """Emit all pending events. Synchronizes with the device."""
        glimpses, readings, self._glimpses, self._readings = self._glimpses, self._readings, [], []
        if (glimpses or readings) and self.loop.device.type != "cpu":
            torch.accelerator.synchronize(self.loop.device)  # the copies to the host have arrived
        for event in (event for glimpse in glimpses for event in _filled(glimpse, type(self.model).__name__)):
            self.loop.hooks.event_emitted(event)
        for reading in readings:
            epoch = reading.step / self.loop.batches.steps_per_epoch
            self.loop.hooks.logged(Row("layers", reading.step, epoch, reading.values()))

    # -- when --

    def _is_due(self, every: int, step: int) -> bool:
        return every > 0 and (step + 1) % every == 0

    def _is_last(self, step: int) -> bool:
        return step + 1 >= self.loop.total_steps

    def _has_facts(self, step: int) -> bool:
        """True for a step whose facts are emitted; layer statistics have their own steps."""
        line = self._is_due(self.lines, step) and step - self._last >= APART
        return step < EARLY or self._accounts is not None or line or self._is_last(step)

    def _after(self, step: int) -> int:
        """The next step to inspect after `step`."""
        if step + 1 < EARLY or self._accounts is not None:
            return step + 1
        line = _next_due(self.lines, max(step + 1, self._last + APART)) if self.lines else self.loop.total_steps - 1
        statistics = self.statistics.next_due(step + 2) - 1 if self.statistics.every else line  # counted from 1 there
        return max(step + 1, min(line, statistics, self.loop.total_steps - 1))

    # -- the forward --

    def _begin(self, window: Window) -> None:
        self._remove()  # the hooks of a step that was not completed
        self._step = step = self.state.step
        if not self._introduced:
            self._introduced = True
            self._events += self._introduction()
        self._layers = LayerLook(self.model) if self.statistics.is_due(step + 1) else None
        if self._layers is not None and self.compiled and not self._noted:
            self.loop.hooks.noted("layers: activations are not measured: hooks would compile a compiled model again")
            self._noted = True
        if self._layers is not None or self._accounts is not None:
            parts = [] if self.compiled else [entry for entry in self.model.named_modules() if entry[0]]
            root = self.loop.forward if isinstance(self.loop.forward, nn.Module) else self.model
            targets = window.micros[0].targets if window.micros else None
            self._remove = during_forward(root, parts, self._saw, partial(self._saw_output, targets))

    def _saw(self, name: str, module: nn.Module, given: Any, output: Any) -> None:
        if self._accounts is not None:
            self._accounts.saw(module, output)
            self._see_once(name, module, output)
        if self._step == Units.LAST:
            self._units.saw(name, given)
        if self._layers is not None and next(module.children(), None) is None:
            self._layers.saw(name or type(module).__name__, output)

    def _see_once(self, name: str, module: nn.Module, output: Any) -> None:
        if isinstance(module, OWNERS):
            self._order.setdefault(module, len(self._order))
        if isinstance(module, ACTIVATIONS) and isinstance(output, Tensor) and output.grad_fn is not None:
            place = layer_place(self.model, name) if name else None
            self._activations.append(Activation(type(module).__name__, place, output.grad_fn))

    def _saw_output(self, targets: Any, output: Any) -> None:
        if not self.compiled:
            self._saw("", self.model, (), output)
        if self._accounts is not None:
            self._accounts.saw_output(output)
        call = self._step - self.began
        if call < (LOSSES_COMPILED if self.compiled else LOSSES):
            fact = loss_facts(self.loop.task, output, targets, self._step, call, self._activations)
            self._events += [fact] if fact is not None else []
        self._activations.clear()

    # -- the gradients --

    def _look_at_gradients(self, loss: Tensor) -> None:
        self._remove()
        self._loss = loss
        if self._layers is not None:
            self._layers.gradients()
        if not self._has_facts(self._step):
            return
        if self._accounts is not None:
            self._accounts.look()
        if self.began == 0 and self._step in (Units.FIRST, Units.SECOND, Units.LAST):
            self._events += self._units.look(self._step)
        if self._is_measured(self._step):
            with torch.no_grad():
                gradients = [dense(parameter.grad) for parameter in self.loop.parameters if parameter.grad is not None]
                self._weights = self._measurable()
                self._lengths = norms([*gradients, *(weight.detach() for _, _, weight in self._weights)])

    def _is_measured(self, step: int) -> bool:
        """Are the gradients of this step compared layer by layer?"""
        return step < MEASURED or step - self._measured >= MEASURED_APART or self._is_last(step)

    def _measurable(self) -> list[Weight]:
        """The weights with a gradient, in the order of the forward, or of registration."""
        held = set(map(id, self.loop.parameters))
        found = [entry for entry in weights_of(self.model) if entry[2].grad is not None and id(entry[2]) in held]
        return in_running_order(found, self._order)

    # -- the end of an inspected step --

    def _conclude(self, norm: Tensor, taken: bool) -> None:
        step, self._step = self._step, -1
        if self._layers is not None:
            reading, self._layers = self._layers.updated(step + 1), None
            self._readings += [reading] if taken else []
        if self._has_facts(step):
            self._glimpses.append(self._glimpse(step, norm, taken))
            self._last = step
        if (self._glimpses or self._readings) and self._may_wait(step):
            self.tell()
        self.next = self._after(step)

    def _may_wait(self, step: int) -> bool:
        row = self.rows.is_due(step + 1)
        return self.loop.device.type == "cpu" or step - self.began < MEASURED or row or self._is_last(step)

    def _glimpse(self, step: int, norm: Tensor, taken: bool) -> _Glimpse:
        with_gradient = [id(parameter) for parameter in self.loop.parameters if parameter.grad is not None]
        measured = taken and self._is_measured(step)
        self._measured = step if measured else self._measured
        places = {key: place for place, key in enumerate(with_gradient)}
        layers = tuple((name, weight.numel(), places[id(weight)]) for name, _, weight in self._weights)
        both = torch.stack([self._loss.detach().reshape(()).float(), norm.reshape(()).float().to(self._loss.device)])
        numbers = torch.cat([both, self._lengths.to(self._loss.device)]) if len(self._lengths) else both
        before, self._events = [*self._events, *self._epochs_begun()], []
        stepped = self._stepped(step, bool(with_gradient)) if taken else None
        self._loss, self._lengths, self._weights = torch.zeros(0), torch.zeros(0), []
        backward, account = self._backward(step, len(with_gradient)), list(self._account(step))
        numbers = numbers.to("cpu", non_blocking=True)
        return _Glimpse(before, backward, stepped, account, measured, layers, numbers)

    # -- events --

    def _introduction(self) -> Iterator[Event]:
        loop, model, step = self.loop, self.model, self._step
        rank, world = loop.peers.rank, loop.peers.world
        yield RunStarted(step, None, loop.recipe.name, (), platform.python_version(), torch.__version__, rank, world)
        yield model_seen(model, step, _place_of(loop.recipe.model), 0, compiled=self.compiled)

    def _epochs_begun(self) -> Iterator[EpochStarted]:
        batches = self.loop.batches.steps_per_epoch
        for epoch in range(max(self._epochs, self.began // batches), self.state.epoch + 1):
            yield EpochStarted(epoch * batches, None, 0, batches, epoch + 1)
        self._epochs = self.state.epoch + 1

    def _backward(self, step: int, reached: int) -> Backward:
        """One event for the whole step: its loss is the mean over all targets of all micro-batches."""
        scaled = self.loop.precision.scaler is not None
        return Backward(
            step=step,
            place=None,
            call=step,
            loss=None,
            root="MulBackward0" if scaled else "DivBackward0",
            mean=False,
            divided=True,
            scaled_by_amp=scaled,
            inside_step=False,
            retained=False,
            nodes=None,
            spanned_steps=None,
            reached=reached,
            optimized=len(self.loop.parameters),
            broadcast=None,
            broadcast_place=None,
            loss_text="loss",
        )

    def _stepped(self, step: int, found: bool) -> Stepped:
        name = type(self.loop.optimizer).__name__
        return Stepped(
            step=step,
            place=None,
            optimizer=0,
            name=name,
            index=step,
            gradients="new" if found else "none",
            cleared=True,
            backwards=self.loop.recipe.accumulate,
            backward_places=(),
            most_at_one_place=self.loop.recipe.accumulate,
            averaged=True,
            clipped=self.loop.recipe.clip is not None,
            closure=False,
            learning_rates=tuple(float(group["lr"]) for group in self.loop.optimizer.param_groups),
            scale_free=name in SCALE_FREE,
        )

    def _account(self, step: int) -> Iterator[Event]:
        steps = step + 1 - self.began
        if self._accounts is not None and (steps in MILESTONES or self._is_last(step)):
            yield self._accounts.parameters_accounted(step, steps)
        if steps >= MILESTONES[-1]:
            self._accounts = None


def _nothing() -> None:
    """There are no hooks to remove."""


def _next_due(every: int, first: int) -> int:
    """The first step from `first` on after which the number of steps taken is a multiple of `every`."""
    return -(-(first + 1) // every) * every - 1


def _is_compiled(loop: Parts) -> bool:
    """Hooks in a compiled model, or in a compiled part of one, would make torch compile it again."""
    from trueloop.torch_private.compiler import is_compiled  # lazy: it loads dynamo

    inside = (*getattr(loop.forward, "children", tuple)(), *loop.model.modules())
    return any(is_compiled(module) for module in (loop.forward, *inside))


def _place_of(builder: Any) -> Place | None:
    """The line of the class or function that builds the model, if it is the user's."""
    builder = inspect.unwrap(builder.func if isinstance(builder, partial) else builder)
    if isinstance(builder, type):
        return class_place(builder)
    code = getattr(builder, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None
    return Place(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_qualname)
