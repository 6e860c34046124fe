"""Every backward: the value of the loss, its reduction, and on some steps which parameters its graph reaches."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import Backward, Place
from trueloop.measure.graph import node_name
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall
from trueloop.taps.graph import LossShape, Survey, broadcast_in, reduction_of, scaler_of, survey
from trueloop.usercode.source import source_of

__all__ = ["BackwardObserver"]

FIRST_WALKS: Final = 8  # steps from the first backward of a place whose graphs are walked: a growing graph shows there
WALK_EVERY: Final = 100  # later walks: on powers of two and every WALK_EVERY-th step; a walk costs about 1 us per node
WALKS_PER_STEP: Final = 2  # walks at one place in one step: further micro-batches show the same
READ_EVERY: Final = 20  # steps between reads of a loss on a device: each read makes the host wait

_READABLE: Final = (Tensor, torch.nn.Parameter)  # reading another kind (a shard) may need other processes
_UNKNOWN: Final = LossShape(mean=False, divided=True, scaled_by_amp=False)

_Stamp = dict[int, int]  # steps taken by each optimizer when a graph was walked


@dataclass(slots=True)
class _Site:
    """A place that calls backward."""

    text: str  # the expression it is called on
    step: int = -1  # step of the last walk
    backwards: int = 0  # backwards in that step
    steps: int = 0  # number of steps with walks


class BackwardObserver(Observer):
    emits = (Backward,)

    def prepare(self) -> None:
        self._sites: dict[Place | None, _Site] = {}
        self._optimized = (-1, 0)  # (number of optimizers, number of their parameters) at the last count

    def backward_started(self, call: BackwardCall) -> None:
        only = call.tensors[0] if len(call.tensors) == 1 and isinstance(call.tensors[0], Tensor) else None
        shape = _UNKNOWN if only is None else reduction_of(only)
        root = only.grad_fn if only is not None else next((node for t in call.tensors if (node := _made_by(t))), None)
        site = self._sites.get(call.place) or self._new_site(call.place)
        walked = self._walk(call) if self._walk_is_due(site) else (None, None, None)
        broadcast = broadcast_in(only) if only is not None and self.bus.deep else None
        self.emit(
            Backward,
            call.place,
            call=call.number,
            loss=None if only is None else self._value(only, shape),
            root="" if root is None else node_name(root),
            mean=shape.mean,
            divided=shape.divided or call.gradients not in (None, (None,)),
            scaled_by_amp=shape.scaled_by_amp,
            inside_step=call.inside_step,
            retained=bool(call.retain_graph),
            nodes=walked[0],
            spanned_steps=walked[1],
            reached=walked[2],
            optimized=self._count_optimized(),
            broadcast=broadcast,
            broadcast_place=_subtraction(call.place) if broadcast else None,
            loss_text=site.text,
        )

    # -- the loss --

    def _value(self, loss: Tensor, shape: LossShape) -> float | None:
        """Without a GradScaler's factor."""
        if type(loss) not in _READABLE or loss.numel() != 1 or loss.is_meta:
            return None
        if not loss.is_cpu and not self.bus.deep and self.bus.step % READ_EVERY:
            return None
        value = loss.item()
        scaler = scaler_of(loss) if shape.scaled_by_amp else None
        return value / (scaler.get_scale() if scaler is not None else 1.0) if isinstance(value, float) else None

    def _new_site(self, place: Place | None) -> _Site:
        source = source_of(place.path) if place else None
        expression = source.backward_target(place.line) if source and place else None
        site = self._sites[place] = _Site(source.text(expression) if source and expression else "")
        return site

    # -- the graph --

    def _walk_is_due(self, site: _Site) -> bool:
        step = self.bus.step
        if site.step == step:
            site.backwards += 1
            return site.backwards <= WALKS_PER_STEP
        if site.steps >= FIRST_WALKS and not self.bus.deep and step & (step - 1) and step % WALK_EVERY:
            return False
        site.step, site.backwards, site.steps = step, 1, site.steps + 1
        return True

    def _walk(self, call: BackwardCall) -> tuple[int | None, int | None, int | None]:
        """(nodes, spanned steps, reached parameters)."""
        roots = [node for tensor in call.tensors if (node := _made_by(tensor)) is not None]
        if not roots:
            return 0, 0, 0
        stamp: _Stamp = {known.number: known.steps for known, _ in self.objects.living_optimizers()}
        met = survey(roots, stamp)
        held = self.objects.held_ids()
        self._optimized = (len(self.objects.optimizers), len(held))
        # sharded parameters are not the leaves of the graph
        countable = met.whole and not (torch.distributed.is_available() and torch.distributed.is_initialized())
        return met.nodes, self._spanned(met) if met.whole else None, len(met.leaves & held) if countable else None

    def _spanned(self, met: Survey) -> int:
        """Steps of the optimizers with parameters in this graph since an earlier walk met a part of it."""
        holders = [known for known, _ in self.objects.living_optimizers() if not known.ids.isdisjoint(met.leaves)]
        return max((known.steps - stamp.get(known.number, 0) for stamp in met.stamps for known in holders), default=0)

    def _count_optimized(self) -> int:
        known = len(self.objects.optimizers)
        if self._optimized[0] != known:
            self._optimized = (known, len(self.objects.held_ids()))
        return self._optimized[1]


def _made_by(thing: object) -> Any:
    """The node behind a tensor, or of a gradient edge."""
    return thing.grad_fn if isinstance(thing, Tensor) else getattr(thing, "node", None)


def _subtraction(place: Place | None) -> Place | None:
    """The line of the subtraction: the line of the backward, or the line that assigns the loss."""
    if place is None:
        return None
    source = source_of(place.path)
    here, loss = source.statement(place.line), source.backward_target(place.line)
    if here is None or loss is None or _has_minus(here):
        return place
    names = {node.id for node in ast.walk(loss) if isinstance(node, ast.Name)}
    around = source.enclosing_function(place.line) or source.tree
    found: ast.stmt | None = None
    for statement in ast.walk(around):
        if (
            isinstance(statement, ast.Assign)
            and statement.lineno < place.line
            and _has_minus(statement)
            and names & set(_assigned(statement))
        ):
            found = statement if found is None or statement.lineno > found.lineno else found
    return place if found is None else Place(place.path, found.lineno, place.function)


def _has_minus(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) for inner in ast.walk(node))


def _assigned(statement: ast.Assign) -> Iterator[str]:
    return (node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name))
