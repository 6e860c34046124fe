"""Two players: does a step that follows the loss of one also move the weights of the other, which scores it?

In the first steps, the gradients at the outputs of a model tell where a loss pushes them. A generator's loss pushes the
critic's outputs on what it was given to one side; the critic's own loss pushes some up and some down.
"""

import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import OpponentMoved, Place
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import BackwardCall, ModuleCall, RunEnd, StepCall

__all__ = ["OpponentsObserver"]

STEPS: Final = 60  # of all optimizers together
FIRST: Final = 16  # after which most runs need no more: no model is moved by two losses
LEAST: Final = 4  # outputs of a call: fewer have one sign by chance
SAMPLE: Final = 256  # numbers of one weight


@dataclass(slots=True)
class _Push:
    """What one backward does to the outputs of one call of a model."""

    low: float
    high: float
    attached: bool  # the call was given what other weights computed, with its graph


@dataclass(slots=True)
class _Critic:
    """A model that may be a player."""

    name: str
    ids: frozenset[int]
    size: int
    weight: weakref.ref[Tensor]
    before: Tensor | None = None  # its gradient before the backward under way
    pushes: list[_Push] = field(default_factory=list)  # of the backward under way
    uses: list[tuple[Place | None, list[_Push]]] = field(default_factory=list)  # since its gradient was cleared
    value: Tensor | None = None  # a part of the weight before the step under way


@dataclass(slots=True)
class _Steps:
    """Steps of one optimizer after the same backward calls that moved a critic."""

    taken: int = 0
    up: int = 0  # all outputs were pushed up, and all calls are attached
    down: int = 0
    both: int = 0  # outputs were pushed both ways, and the optimizer trains nothing that the critic was given


class OpponentsObserver(Observer):
    emits = (OpponentMoved,)

    def prepare(self) -> None:
        self._critics: dict[int, _Critic] = {}
        self._steps: defaultdict[tuple[int, int, tuple[Place | None, ...]], _Steps] = defaultdict(_Steps)
        """By critic, optimizer and backward calls."""
        self._in_backward = False
        self._ended = False

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._ended or call.compiled or not call.grad or self.bus.in_step or len(self.objects.models) < 2:
            return
        output = call.output
        if not is_plain(output) or output.grad_fn is None or output.numel() < LEAST:
            return
        known = self.objects.model(call.module)
        critic = None if known is None else self._critic(known.number, known.name, unwrapped(call.module))
        weight = None if critic is None else critic.weight()
        if critic is None or weight is None or not weight.requires_grad:
            return
        given = [t for t in (*call.args, *call.kwargs.values()) if isinstance(t, Tensor)]
        attached = any(tensor.grad_fn is not None for tensor in given)
        output.grad_fn.register_prehook(partial(self._pushed, critic, attached, output.output_nr))

    def _critic(self, number: int, name: str, module: nn.Module) -> _Critic | None:
        if number not in self._critics:
            trained = [p for p in module.parameters() if p.requires_grad]
            weight = next((p for p in trained if p.ndim > 1 and is_plain(p) and is_readable(p)), None)
            if weight is None:
                return None
            ids, size = frozenset(map(id, trained)), sum(p.numel() for p in trained)
            self._critics[number] = _Critic(name, ids, size, weakref.ref(weight))
        return self._critics[number]

    def _pushed(self, critic: _Critic, attached: bool, which: int, gradients: tuple[Tensor | None, ...]) -> None:
        """A hook of the graph, not of the tensor, which the user may save; `autograd.grad` calls it too."""
        gradient = gradients[which]
        if self._in_backward and is_plain(gradient) and is_readable(gradient):
            low, high = torch.aminmax(gradient.detach())
            critic.pushes.append(_Push(low.item(), high.item(), attached))

    def backward_started(self, call: BackwardCall) -> None:
        if self._ended or call.inside_step:
            return
        self._in_backward = True
        for critic in self._critics.values():
            critic.pushes, critic.before = [], _part(critic, gradient=True)
            if critic.before is None or not bool(critic.before.any()):
                critic.uses = []

    def backward_ended(self, call: BackwardCall) -> None:
        self._in_backward = False
        for critic in self._critics.values():
            after = _part(critic, gradient=True)
            changed = after is not None and (critic.before is None or not torch.equal(after, critic.before))
            if critic.pushes and changed:
                critic.uses.append((call.place, critic.pushes))
            critic.before = None

    def step_started(self, call: StepCall) -> None:
        for critic in self._critics.values():
            critic.value = None if self._ended or call.closure else _part(critic)

    def step_ended(self, call: StepCall) -> None:
        if self._ended:
            return
        held = frozenset(map(id, parameters_of(call.optimizer)))
        optimizer = self.objects.optimizer(call.optimizer).number
        for number, critic in self._critics.items():
            before, critic.value = critic.value, None
            after, gradient = _part(critic), _part(critic, gradient=True)
            moved = before is not None and after is not None and not torch.equal(before, after)
            if not moved or not critic.uses or not critic.ids <= held or gradient is None or not bool(gradient.any()):
                continue
            places = tuple(dict.fromkeys(place for place, _ in critic.uses))
            _count(self._steps[number, optimizer, places], critic.uses, alone=held <= critic.ids)
        if self.bus.step >= (STEPS if self._has_two_losses() else FIRST):
            self._end()

    def _has_two_losses(self) -> bool:
        """Some model was moved by two optimizers, or after different backward calls."""
        return len({number for number, _, _ in self._steps}) < len(self._steps)

    def run_ended(self, _: RunEnd) -> None:
        if not self._ended:
            self._end()

    def _end(self) -> None:
        self._ended = True
        for (number, optimizer, places), against in self._steps.items():
            here = number, optimizer, places
            own = [key for key in self._steps if key[0] == number and key != here]
            if not own or not (against.up or against.down):
                continue
            most = max(own, key=lambda key: self._steps[key].both)
            critic, known = self._critics[number], self.objects.optimizers[optimizer]
            self.emit(OpponentMoved, known.place, optimizer, known.name, critic.name, critic.size,
                      against.taken, against.up, against.down, places[-1], self._steps[most].taken,
                      self._steps[most].both, most[2][-1], most[1] == optimizer)  # fmt: skip
        self._critics.clear()
        self._steps.clear()


@torch.no_grad()
def _part(critic: _Critic, *, gradient: bool = False) -> Tensor | None:
    weight = critic.weight()
    tensor = weight.grad if weight is not None and gradient else weight
    if tensor is None or tensor.is_sparse or not is_readable(tensor):
        return None
    return tensor.detach().reshape(-1)[:SAMPLE].clone()


def _count(steps: _Steps, uses: list[tuple[Place | None, list[_Push]]], *, alone: bool) -> None:
    """`alone`: the optimizer holds nothing but the critic."""
    pushes = [push for _, made in uses for push in made]
    rises, falls = any(push.low < 0 for push in pushes), any(push.high > 0 for push in pushes)
    steps.taken += 1
    if rises != falls and all(push.attached for push in pushes):
        steps.up += rises
        steps.down += falls
    elif rises and falls and (alone or not any(push.attached for push in pushes)):
        steps.both += 1
