"""Gradients that are gone before any step has used them: one backward computed them, and they were cleared before the
next backward of the same step; or the script assigned them to `.grad`, and then other gradients over them; or
`torch.autograd.grad` returned them, and nothing kept them.

Seen in recorded steps only, where operations show whether anything has read these gradients. Gradients that something
keeps, that reached other tensors than the parameters of one optimizer, or whose loss is a term of the next one, were
computed to be looked at.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import GradientsErased, Place
from trueloop.measure.graph import inputs_of, is_view, operation_name
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, OperationCall, ProgramStart, StepCall
from trueloop.torch_private.tensors import tensor_version

__all__ = ["ErasedGradientsObserver"]

SAMPLE: Final = 6  # parameters of an optimizer that are looked at
NODES: Final = 20_000  # of a graph
TERMS: Final = 32  # of a loss
_TERM: Final = "trueloop.term"  # the key of a note on the node of a loss, or of one of its terms
_ARITHMETIC: Final = ("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Stack")
_CLEARING: Final = ("zero_", "_foreach_zero_", "detach_", "requires_grad_")


@dataclass(slots=True)
class _Gradients:
    """What one backward computed, or what one round of assignments left, on a sample of parameters."""

    optimizer: int
    place: Place | None
    assigned: bool
    pairs: list[tuple[weakref.ref[Tensor], weakref.ref[Tensor]]]  # parameter and gradient
    ids: dict[int, weakref.ref[Tensor]]  # of the gradients
    weights: int  # versions of the parameters
    seen: bool = False  # something read them, or keeps them
    erased: bool = False


class ErasedGradientsObserver(Observer):
    emits = (GradientsErased,)
    rarely = ("backward_started", "backward_ended", "gradients_taken", "step_started")

    def prepare(self) -> None:
        self._on = False
        self._choosing: set[Place | None] = set()  # lines of `torch.autograd.grad` whose last result is not always used
        self._start()

    def _start(self) -> None:
        self._returned: list[_Gradients] = []  # by `torch.autograd.grad`
        self._known: list[_Gradients] = []
        self._leaves: set[int] = set()  # of the backward under way
        self._taken: Place | None = None  # the latest call of `torch.autograd.grad`
        self._set: Place | None = None  # the latest assignment to a `.grad`

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._start()

    def program_ended(self, start: ProgramStart) -> None:
        self._on = False
        self._start()

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        if call.name == "__set__" and len(call.args) == 2 and isinstance(call.args[0], torch.nn.Parameter):
            self._set = call.place
        elif call.name == "grad":
            self._add_returned(call)
        elif (self._known or self._returned) and call.name not in _CLEARING:
            for tensor in tensors_in((call.args, call.kwargs), 512):
                for gradients in (*self._known, *self._returned):
                    ref = gradients.ids.get(id(tensor))
                    gradients.seen |= ref is not None and ref() is tensor

    def backward_started(self, call: BackwardCall) -> None:
        if self._on:
            self._leaves, terms = _behind([t.grad_fn for t in call.tensors if isinstance(t, Tensor)])
            for gradients in self._known:
                gradients.seen |= id(gradients) in terms
                self._judge(gradients)

    def backward_ended(self, call: BackwardCall) -> None:
        if not self._on or call.inside_step or not self._leaves:
            return
        optimizers = [(known.number, o) for known, o in self.objects.living_optimizers() if known.ids & self._leaves]
        if len(optimizers) == 1:
            number, optimizer = optimizers[0]
            parameters = list(parameters_of(optimizer))
            if self._leaves <= {id(p) for p in parameters}:
                reached = [p for p in parameters if id(p) in self._leaves]
                found = self._add(number, call.place, reached, assigned=False)
                for tensor in call.tensors if found is not None else ():
                    for node in _terms(tensor.grad_fn):
                        node.metadata[_TERM] = id(found)

    def gradients_taken(self, call: BackwardCall) -> None:
        """Gradients that were assigned since the latest call."""
        if self._on:
            self._find_assigned()
            for gradients in self._known:
                self._judge(gradients)
            self._taken = call.place

    def step_started(self, call: StepCall) -> None:
        if not self._on or call.closure:
            return
        self._find_assigned()
        number = self.objects.optimizer(call.optimizer).number
        self._judge_returned(call, number)
        own = [gradients for gradients in self._known if gradients.optimizer == number]
        for gradients in own:
            if gradients.assigned:
                self._judge(gradients)
        erased = [gradients for gradients in own if gradients.erased and not gradients.seen]
        if erased and not own[-1].erased:
            kind, lost = erased[0].assigned, erased[0]
            self.emit(GradientsErased, lost.place, number, type(call.optimizer).__name__, own[-1].place, len(erased),
                      len(own) - len(erased), kind)  # fmt: skip

    def _find_assigned(self) -> None:
        if self._taken is None or self._set is None:
            return
        place, self._set = self._set, None
        for known, optimizer in self.objects.living_optimizers():
            parameters = [p for p in parameters_of(optimizer) if p.grad is not None]
            before = [g.ids for g in self._known if g.optimizer == known.number][-1:]
            grads = [gradient for p in parameters if (gradient := p.grad) is not None]
            same = [ids[id(g)]() is g for ids in before for g in grads if id(g) in ids]
            if parameters and not any(same):
                self._add(known.number, place, parameters, assigned=True)

    def _add(self, number: int, place: Place | None, parameters: list[Tensor], *, assigned: bool) -> _Gradients | None:
        chosen = parameters[:: max(1, -(-len(parameters) // SAMPLE))]
        found = [(p, g) for p in chosen if (g := p.grad) is not None and is_plain(g) and is_readable(g)]
        if len(found) < len(chosen) or not found or not any(bool(g.any()) for _, g in found):
            return None
        pairs = [(weakref.ref(p), weakref.ref(g)) for p, g in found]
        ids = {id(g): weakref.ref(g) for _, g in found}
        self._known.append(_Gradients(number, place, assigned, pairs, ids, _versions(pairs)))
        return self._known[-1]

    def _add_returned(self, call: OperationCall) -> None:
        """What a call returned for the parameters of one optimizer."""
        inputs, results = (list(tensors_in(value)) for value in (call.args[1], call.output))
        if len(inputs) != len(results) or not inputs or call.kwargs.get("create_graph"):
            return
        ids = {id(tensor) for tensor in inputs}
        for known, _ in self.objects.living_optimizers():
            if ids <= known.ids:
                pairs = [(weakref.ref(p), weakref.ref(g)) for p, g in zip(inputs, results, strict=True)]
                found = {id(gradient): weakref.ref(gradient) for gradient in results}
                self._returned.append(_Gradients(known.number, call.place, True, pairs, found, _versions(pairs)))

    def _judge_returned(self, call: StepCall, number: int) -> None:
        """Of several results of one line: the step uses the last, and the others are gone and were never read."""
        own = [gradients for gradients in self._returned if gradients.optimizer == number]
        last = own[-1] if own else None
        self._returned = []
        if last is None:
            return
        earlier = [g for g in own[:-1] if g.place == last.place]
        used = [g for g in (*earlier, last) if g.seen or any(ref() is not None for _, ref in g.pairs)]
        if len(used) != 1 or used[0] is not last or any(g.weights != _versions(g.pairs) for g in earlier):
            self._choosing.add(last.place)
        elif earlier and last.place not in self._choosing:
            self.emit(GradientsErased, last.place, number, type(call.optimizer).__name__, last.place, len(earlier), 1,
                      True, True)  # fmt: skip

    def _judge(self, gradients: _Gradients) -> None:
        """Are they gone, and did nothing use them?"""
        if gradients.erased or gradients.seen:
            return
        states = [_state(parameter(), gradient(), gradients.assigned) for parameter, gradient in gradients.pairs]
        gradients.seen |= "kept" in states or _versions(gradients.pairs) != gradients.weights
        gradients.erased = not gradients.seen and all(state == "gone" for state in states)


def _state(parameter: Tensor | None, gradient: Tensor | None, assigned: bool) -> str:
    now = None if parameter is None else parameter.grad
    if now is not None and now is gradient:
        return "there" if bool(now.any()) else "gone"
    if gradient is not None:
        return "kept"
    return "gone" if now is None or assigned or not bool(now.any()) else "there"


def _versions(pairs: list[tuple[weakref.ref[Tensor], weakref.ref[Tensor]]]) -> int:
    return sum(tensor_version(p) for ref, _ in pairs if (p := ref()) is not None)


def _terms(root: Any) -> Iterator[Any]:
    """The node of a loss, and the nodes of the terms that it is a weighted sum of."""
    waiting, seen = [root], 0
    while waiting and seen < TERMS:
        node = waiting.pop()
        seen += 1
        if node is None or not node.next_functions:
            continue
        yield node
        if operation_name(node) in _ARITHMETIC or is_view(node):
            waiting += inputs_of(node)


def _behind(roots: list[Any]) -> tuple[set[int], set[int]]:
    """Of the graph of a loss: its leaves, and the notes on its nodes. No leaves: the graph is too large."""
    waiting = [node for node in roots if node is not None]
    seen, leaves, notes = set(waiting), set[int](), set[int]()
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if not node.next_functions:
            leaves.add(id(getattr(node, "variable", None)))
            continue
        note = node.metadata.get(_TERM)
        if note is not None:
            notes.add(note)
        following = [behind for behind, _ in node.next_functions if behind is not None and behind not in seen]
        seen.update(following)
        waiting += following
    return (set() if waiting else leaves), notes
