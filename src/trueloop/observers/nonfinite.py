"""The first NaN or Inf in a loss or gradient, and, by a replay, where it arose. Emitted once per run.

The loss is read before each backward, while its graph still exists.
"""

import ast
import math
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import NotFinite, Place
from trueloop.measure.graph import operation_name
from trueloop.measure.nonfinite import bad_rows, bounds, is_bad_input, nan_or_inf, not_finite
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import (
    BackwardCall,
    BatchDrawn,
    LoaderStart,
    LossCall,
    ModuleCall,
    RunEnd,
    StepCall,
    tensors_in,
)
from trueloop.taps.graph_notes import FORWARD, read_note
from trueloop.taps.nonfinite_replay import Origin, Replay, autocast_now
from trueloop.taps.place import is_users, place_in
from trueloop.torch_private.autograd import saved
from trueloop.usercode.source import called_name, source_of

__all__ = ["NonfiniteObserver"]

READ_EVERY: Final = 20  # steps between reads of values on a device: each makes the host wait
FIRST_STEPS: Final = 100  # first steps whose gradients are all checked
GRADIENTS_EVERY: Final = 5  # after those, one step in so many; a missed one shows in the weights one step later
CALLS: Final = 8  # forwards of one step to remember for a replay
SMALL: Final = 1 << 14  # elements of a gradient that may be summed at every step
WALK: Final = 400  # nodes between the loss and the model's output to search

_STEEP: Final = ("Sqrt", "LinalgVectorNorm", "Std", "Cdist")  # operations without a finite slope where they are zero

Source = Literal["input", "weight", "layer", "loss", "unknown"]
Rebuild = Callable[[], Any]


@dataclass(slots=True)
class _Forward:
    """A call that can be repeated as long as its inputs live."""

    module: weakref.ref[nn.Module]
    args: Rebuild
    kwargs: Rebuild
    autocast: tuple[str, torch.dtype] | None
    place: Place | None
    made: torch.Size | None  # the shape of its output, if that is a tensor


@dataclass(slots=True)
class _Loss:
    function: str
    input: weakref.ref[Tensor]
    target: weakref.ref[Tensor]
    output: weakref.ref[Tensor]
    place: Place | None


class _Freed(Exception):
    """An input of a remembered call was freed."""


class NonfiniteObserver(Observer):
    emits = (NotFinite,)

    def prepare(self) -> None:
        self._reported = False
        self._forwards: deque[_Forward] = deque(maxlen=CALLS)
        self._losses: deque[_Loss] = deque(maxlen=CALLS)
        self._watched: WeakKeyDictionary[Optimizer, weakref.ref[Tensor]] = WeakKeyDictionary()
        self._backward_place: Place | None = None
        self._steep: Origin | None = None  # operation of the latest loss without a finite slope; searched on deep steps
        self._loss: weakref.ref[Tensor] | None = None
        self._loader: int | None = None
        self._drawn: dict[int, int] = {}  # batches of each loader's pass so far
        self._sample: int | None = None

    # -- which batch it is --

    def loader_started(self, start: LoaderStart) -> None:
        self._drawn[self.bus.ordinal("loader", start.loader)] = 0

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if drawn.number is not None:
            self._loader = drawn.number
            self._drawn[drawn.number] = self._drawn.get(drawn.number, 0) + 1

    # -- what is remembered of a step: weak references only --

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._reported or call.failed or not call.grad:
            return
        made = call.output.shape if type(call.output) is Tensor else None
        given = _weak_copy(call.args), _weak_copy(call.kwargs)
        self._forwards.append(_Forward(weakref.ref(call.module), *given, autocast_now(), call.place, made))

    criterion_ended = module_call_ended  # it may compute the first NaN itself

    def loss_called(self, loss: LossCall) -> None:
        if not self._reported:
            references = weakref.ref(loss.input), weakref.ref(loss.target), weakref.ref(loss.output)
            self._losses.append(_Loss(loss.function, *references, loss.place))

    def step_ended(self, call: StepCall) -> None:
        self._forwards.clear()
        self._losses.clear()

    # -- looks --

    def backward_started(self, call: BackwardCall) -> None:
        self._backward_place, self._steep = call.place, None
        loss = call.tensors[0] if call.tensors else None
        if self._reported or type(loss) is not Tensor or not self._may_read(loss):
            return
        self._loss = weakref.ref(loss)
        value = loss.item() if loss.numel() == 1 else float(loss.detach().sum())
        if math.isfinite(value):
            if self.bus.deep:
                with torch.no_grad():
                    self._steep = _steep_node(loss, call.place)
        elif not self._passes(call, loss, value):
            self._reported = True
            with torch.no_grad():
                self._report("loss", "nan" if math.isnan(value) else "inf", *self._origin_of_loss(loss, call.place))

    def _passes(self, call: BackwardCall, loss: Tensor, value: float) -> bool:
        """Inf at a trial point of a line search, or by too large a scale, is discarded; a sum alone may overflow."""
        trial = call.inside_step or (self.bus.scaler_used and loss.dtype == torch.float16)
        return (trial and not math.isnan(value)) or not not_finite(loss.detach())

    def step_started(self, call: StepCall) -> None:
        """A gradient can be non-finite though the loss is finite: the slope of sqrt at zero."""
        skipped = self.bus.step > FIRST_STEPS and self.bus.step % GRADIENTS_EVERY
        if self._reported or self.bus.scaler_used or call.closure or skipped:
            return
        parameter = self._nearest_to_input(call.optimizer)
        gradient = None if parameter is None else parameter.grad
        if parameter is None or gradient is None or type(gradient) is not Tensor or not self._may_read(gradient):
            return
        if math.isfinite(gradient.sum().item()) or not not_finite(gradient.detach()):
            return
        self._reported = True
        with torch.no_grad():
            self._report("gradient", nan_or_inf(gradient), *self._origin_of_gradient(parameter))

    def run_ended(self, end: RunEnd) -> None:
        """The script ended itself at a non-finite loss (`raise`, `assert`, `sys.exit`), before a backward."""
        stopped = end.reason == "exception" or (isinstance(end.exception, SystemExit) and bool(end.exception.code))
        if self._reported or not stopped or end.exception is None:
            return
        computed = [output for loss in self._losses if (output := loss.output()) is not None]
        found = next((loss for loss in (*_losses_in(end.exception), *computed) if _is_bad_loss(loss)), None)
        if found is not None:
            self._reported = True
            frames = _users_frames(end.exception)
            self._backward_place = self._backward_place or (place_in(frames[-1]) if frames else None)
            with torch.no_grad():
                self._report("loss", nan_or_inf(found), *self._origin_of_loss(found, self._backward_place))

    def _may_read(self, tensor: Tensor) -> bool:
        if tensor.is_cpu:
            return tensor.layout is torch.strided and not tensor.is_complex()
        due = not tensor.is_meta and (self.bus.deep or self.bus.step % READ_EVERY == 0)
        return due and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())

    def _nearest_to_input(self, optimizer: Optimizer) -> Tensor | None:
        """The first small parameter with a gradient: a NaN anywhere spreads to all gradients behind it."""
        if optimizer not in self._watched:
            small = (p for p in parameters_of(optimizer) if p.grad is not None and p.numel() <= SMALL)
            first = next(small, None)
            if first is None:
                return None
            self._watched[optimizer] = weakref.ref(first)
        return self._watched[optimizer]()

    # -- where it arose --

    def _origin_of_loss(self, loss: Tensor, place: Place | None) -> tuple[Source, Origin]:
        found = self._inputs() or self._weights() or self._layers("origin") or self._loss_functions()
        if found is None and (node := _made_in_graph(loss, place)) is not None:
            found = ("loss", node)
        return found or ("unknown", Origin("", "", place, None, ""))

    def _origin_of_gradient(self, parameter: Tensor) -> tuple[Source, Origin]:
        found = self._inputs() or self._weights() or self._layers("steep")
        loss = None if self._loss is None else self._loss()
        steep = self._steep or (None if loss is None else _only_steep_node(loss, self._backward_place))
        if found is None and steep is not None:
            found = ("loss", steep)
        return found or ("unknown", Origin(self.objects.name_of(parameter), "", self._backward_place, None, ""))

    def _inputs(self) -> tuple[Source, Origin] | None:
        """A batch with NaN or +Inf; -Inf alone is a mask. An output of an earlier call is not a batch."""
        made: set[torch.Size | None] = set()
        for forward in self._forwards:
            given = tensors_in(_strong_copy(forward))
            inputs = [t for t in given if t.is_floating_point() and t.grad_fn is None and t.shape not in made]
            made.add(forward.made)
            bad = [t for t in inputs if is_bad_input(t)]
            if bad:
                self._sample = next((found[0] for tensor in bad if (found := bad_rows(tensor)) is not None), None)
                module = forward.module()
                name = "" if module is None else type(unwrapped(module)).__name__
                return "input", Origin(name, "", forward.place, bounds(bad), nan_or_inf(bad[0]))
        return None

    def _weights(self) -> tuple[Source, Origin] | None:
        for _, model in self.objects.living_models():
            for name, parameter in model.named_parameters():
                if not_finite(parameter):
                    return "weight", Origin(name, "", self._backward_place, bounds([parameter]), nan_or_inf(parameter))
        return None

    def _layers(self, question: Literal["origin", "steep"]) -> tuple[Source, Origin] | None:
        for forward in self._forwards:
            module, given = forward.module(), _strong_copy(forward)
            if module is None or given is None:
                continue
            replay = Replay(unwrapped(module))
            replay.run(*given, grad=True, autocast=forward.autocast)
            origin = replay.origin if question == "origin" else replay.steep
            if origin is not None:
                return "layer", origin
        return None

    def _loss_functions(self) -> tuple[Source, Origin] | None:
        """A loss function that returned NaN or Inf for finite inputs; or a non-finite target."""
        for loss in self._losses:
            scores, target, output = loss.input(), loss.target(), loss.output()
            if target is not None and not_finite(target):
                found = bad_rows(target)
                self._sample = None if found is None else found[0]
                return "input", Origin("", f"{loss.function}, target", loss.place, bounds([target]), nan_or_inf(target))
            if scores is not None and output is not None and not_finite(output) and not not_finite(scores):
                return "loss", Origin("", loss.function, loss.place, bounds([scores]), nan_or_inf(output))
        return None

    def _report(self, what: Literal["loss", "gradient"], value: str, source: Source, origin: Origin) -> None:
        self.emit(
            NotFinite,
            origin.place or self._backward_place,
            what=what,
            layer=origin.layer,
            operation=origin.operation,
            input_range=origin.input_range,
            value=value,
            origin=source,
            learning_rates=tuple(
                float(group.get("lr", 0.0))
                for _, optimizer in self.objects.living_optimizers()
                for group in optimizer.param_groups
            ),
            sample=self._sample if source == "input" else None,
            loader=self._loader,
            batch=None if self._loader is None else self._drawn[self._loader] - 1,
        )


# -- the loss at which a script ended itself --


def _users_frames(error: BaseException) -> list[FrameType]:
    """The user's frames on an exception's way, outermost first."""
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_users(frame.f_code.co_filename)]


def _losses_in(error: BaseException) -> list[Any]:
    """The variables of those frames, the ones named like a loss first, then the innermost frame's."""
    pairs = [pair for frame in reversed(_users_frames(error)) for pair in tuple(frame.f_locals.items())]
    return [value for _, value in sorted(pairs, key=lambda pair: "loss" not in pair[0].lower())]


def _is_bad_loss(value: object) -> bool:
    return type(value) is Tensor and value.grad_fn is not None and value.numel() == 1 and not_finite(value.detach())


# -- weak copies of arguments --


def _weak_copy(value: Any) -> Rebuild:
    """A function that returns the value, with weak references to its tensors; raises _Freed when one was freed."""
    if isinstance(value, Tensor):
        reference = weakref.ref(value)

        def tensor() -> Tensor:
            living = reference()
            if living is None:
                raise _Freed
            return living

        return tensor
    if value is None or (type(value) in (tuple, list, dict) and not value):
        return lambda: value
    if isinstance(value, Mapping):
        items = {key: _weak_copy(item) for key, item in value.items()}
        return lambda: {key: rebuild() for key, rebuild in items.items()}
    if type(value) in (tuple, list):
        parts, kind = [_weak_copy(item) for item in value], type(value)
        return lambda: kind(rebuild() for rebuild in parts)
    if isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return lambda: value
    return _freed


def _freed() -> Any:
    raise _Freed


def _strong_copy(forward: _Forward) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    try:
        return forward.args(), forward.kwargs()
    except _Freed:
        return None


# -- between the model's output and the loss --


def _between(loss: Tensor) -> list[Any]:
    """Nodes from the loss back to the outputs of models, the farthest from the loss first."""
    root: Any = loss.grad_fn
    met, waiting = ([root], deque([root])) if root is not None else ([], deque())
    while waiting and len(met) < WALK:
        node = waiting.popleft()
        if read_note(node, FORWARD) is not None and node is not root:
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in met:
                met.append(following)
                waiting.append(following)
    return met[::-1]


def _saved(node: Any, name: str) -> Tensor | None:
    """A tensor that a node saves for its backward."""
    try:
        value = saved(node, name)
    except RuntimeError:  # it has been freed
        return None
    return value if isinstance(value, Tensor) else None


def _made_in_graph(loss: Tensor, place: Place | None) -> Origin | None:
    """The operation between output and loss with inputs outside its domain."""
    for node in _between(loss):
        name = operation_name(node)
        taken, result, other = _saved(node, "self"), _saved(node, "result"), _saved(node, "other")
        subject = taken
        if name in ("Log", "Log2", "Log10"):
            bad = taken is not None and not not_finite(taken) and bool((taken <= 0).any())
        elif name in ("Sqrt", "Rsqrt", "Exp", "Reciprocal", "Expm1", "Std"):
            bad = result is not None and not_finite(result)
            subject = taken if taken is not None else result
        elif name == "Div":
            bad, subject = other is not None and bool((other == 0).any()), other
        elif name == "Pow":
            exponent = saved(node, "exponent", 1)
            partial = isinstance(exponent, float) and not exponent.is_integer()
            falling = isinstance(exponent, (int, float)) and exponent < 0
            bad = taken is not None and bool(((taken < 0) & partial).any() or falling)
        elif name in ("Acos", "Asin"):
            bad = taken is not None and bool((taken.abs() > 1).any())
        elif name == "Mean":
            bad, subject = 0 in saved(node, "self_sym_sizes", ()), None
        else:
            continue
        if bad:
            span = None if subject is None else bounds([subject])
            return Origin("", name.lower(), _line_of(name, place), span, "nan")
    return None


def _steep_node(loss: Tensor, place: Place | None) -> Origin | None:
    """An operation between output and loss at zero, where it has no finite slope."""
    for node in _between(loss):
        name = operation_name(node)
        taken = _saved(node, "result") if name in _STEEP else None
        exponent = saved(node, "exponent", 1) if name == "Pow" else 1
        if name == "Pow" and isinstance(exponent, (int, float)) and exponent < 1:
            taken = _saved(node, "self")
        if taken is not None and bool((taken == 0).any()):
            return Origin("", name.lower(), _line_of(name, place), bounds([taken]), "nan")
    return None


def _only_steep_node(loss: Tensor, place: Place | None) -> Origin | None:
    """After the graph was freed only the names of its operations are left: enough if only one can be the cause."""
    names = {name for node in _between(loss) if (name := operation_name(node)) in _STEEP}
    return Origin("", (name := names.pop()).lower(), _line_of(name, place), None, "nan") if len(names) == 1 else None


_SPELT: Final[dict[str, tuple[str, ...]]] = {
    "Log": ("log",), "Log2": ("log2",), "Log10": ("log10",), "Sqrt": ("sqrt",), "Rsqrt": ("rsqrt",), "Exp": ("exp",),
    "Expm1": ("expm1",), "Std": ("std",), "Pow": ("pow",), "Mean": ("mean",), "Cdist": ("cdist",),
    "Acos": ("acos", "arccos"), "Asin": ("asin", "arcsin"),
    "LinalgVectorNorm": ("norm", "vector_norm"), "Reciprocal": ("reciprocal",), "Div": ("div", "divide", "true_divide"),
}  # fmt: skip
_SIGNS: Final[dict[str, type[ast.operator]]] = {"Div": ast.Div, "Pow": ast.Pow, "Reciprocal": ast.Div}


def _line_of(operation: str, backward: Place | None) -> Place | None:
    """The only line with this operation in the backward's function, or else in its file; else the backward's own."""
    if backward is None:
        return None
    source = source_of(backward.path)
    for scope in (source.enclosing_function(backward.line), source.tree):
        lines = set() if scope is None else {
            node.lineno
            for node in ast.walk(scope)
            if (isinstance(node, ast.Call) and called_name(node) in _SPELT[operation])
            or (isinstance(node, ast.BinOp) and isinstance(node.op, _SIGNS.get(operation, ())))
        }  # fmt: skip
        if len(lines) == 1:
            return Place(backward.path, lines.pop(), backward.function)
    return backward
