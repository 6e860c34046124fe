"""Would the same samples get the same score again? Tested once per model, in eval mode, on a copy, with other seeds.

Only for outputs that go directly into a loss whose target is not the model's input. Where the draws are samples from a
distribution that the model itself describes (mean and deviation, probabilities), randomness is intended, and the event
says so.
"""

import ast
import re
import sys
import weakref
from collections.abc import Iterator, Mapping
from time import perf_counter
from types import FrameType
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import EvaluationRepeated, Place
from trueloop.event.operation_names import DROPOUTS
from trueloop.measure.tensors import same_memory
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel, unwrapped
from trueloop.taps.calls import DecisionCall, LossCall, ModuleCall, tensors_in
from trueloop.taps.place import frame_here, is_users, place_in
from trueloop.taps.replay_copy import CannotReplay, Inputs, ReplayCopy, Trace, mapped
from trueloop.usercode.names import says_monte_carlo, words_of
from trueloop.usercode.ownership import users_classes
from trueloop.usercode.source import calls_in, source_of

__all__ = ["EvaluationRepeatsObserver"]

MOST: Final = 8  # most samples to run again
SEEDS: Final = (11, 22, 33, 44)  # random seeds: a random branch may be the same twice, hardly four times
SLOWEST: Final = 2.0  # a forward that takes longer is not run again
OUTPUTS: Final = 4  # outputs of one call to compare
DEEP: Final = 60  # frames to search outwards from a draw

_NORMAL: Final = frozenset({"randn", "randn_like", "normal"})
_UNIFORM: Final = frozenset({"rand", "rand_like", "uniform"})
_OTHERS: Final = frozenset({"randint", "randint_like", "randperm", "bernoulli", "random", "poisson"})
_SAMPLES: Final = frozenset({"multinomial", "exponential", "gumbel_softmax"})
"""Functions that draw from given probabilities."""
_DESCRIBED: Final = ("bernoulli", "normal", "poisson")  # Functions whose arguments may describe a distribution
_RANDOM_WORD: Final = re.compile(
    "sampl|reparam|gumbel|variation|vae|diffus|stochast|tta|generat|noisy|anneal", re.IGNORECASE
)  # Beginnings of words in names of functions and classes that mean randomness


class Draws(Trace):
    """Which operations of a forward draw random numbers, and what for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        self.place: Place | None = None
        self.sampling = False
        self.drops = False  # A dropout function is active: another rule reports that
        self._normal: dict[int, Tensor] = {}
        self._uniform: dict[int, Tensor] = {}

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if name in _NORMAL or name in _UNIFORM or name in _OTHERS or name in _SAMPLES:
            self._drawn(name, args, output)
        elif name in DROPOUTS:
            training = args[2] if len(args) > 2 else name != "alpha_dropout"
            self.drops = self.drops or bool(kwargs.get("training", training))
        elif name == "scaled_dot_product_attention":
            self.drops = self.drops or (kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0) or 0.0) > 0
        elif name in ("mul", "rmul", "addcmul"):  # noise times a deviation, element by element
            given = [arg for arg in args if isinstance(arg, Tensor)]
            others = [arg for arg in given if id(arg) not in self._normal]
            self.sampling |= len(others) < len(given) and any(other.numel() > 1 for other in others)
        elif name == "log" and args and id(args[0]) in self._uniform:  # Gumbel noise
            self.sampling = True

    def _drawn(self, name: str, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and (name in _NORMAL or name in _UNIFORM):
            (self._normal if name in _NORMAL else self._uniform)[id(output)] = output
        given = [arg for arg in args if isinstance(arg, Tensor) and arg.numel() > 1 and arg is not output]
        described = [arg for arg in given if name in _DESCRIBED and bool((arg != arg.reshape(-1)[0]).any())]
        frames = list(_outwards(sys._getframe(2)))
        self.sampling |= name in _SAMPLES or bool(described) or any(map(_names_randomness, frames))
        self.sampling |= any(map(_means_randomness, self._running))
        frame = frame_here(2)
        if self.place is None and frame is not None:
            self.place = place_in(frame)
        self.names[name] = None


class _Case:
    """What is known of one model."""

    __slots__ = ("asked", "inputs", "labelled", "outputs", "repeats", "scored", "training")

    def __init__(self) -> None:
        self.asked = False
        self.labelled = False  # its output goes directly into a loss, against something other than its input
        self.scored = False  # the same in eval mode, into a loss or a decision
        self.repeats = False  # called twice in a row with the same input: the user averages over draws
        self.training = True
        self.inputs: list[weakref.ref[Tensor]] = []
        self.outputs: list[weakref.ref[Tensor]] = []  # of the latest call


class EvaluationRepeatsObserver(Observer):
    emits = (EvaluationRepeated,)

    def prepare(self) -> None:
        self._cases: dict[int, _Case] = {}
        self._latest: _Case | None = None
        self._began = 0.0

    # -- is it scored against labels? --

    def module_call_started(self, call: ModuleCall) -> None:
        self._began = perf_counter()

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None:
            return
        case = self._latest = self._cases.get(known.number) or self._cases.setdefault(known.number, _Case())
        if case.asked or call.failed or (call.training and case.labelled):
            case.training = call.training
            return
        inputs = list(tensors_in((call.args, call.kwargs), limit=8))
        if not (call.training or case.training):
            case.repeats = case.repeats or (bool(inputs) and any(ref() is inputs[0] for ref in case.inputs[:1]))
        case.training = call.training
        if not call.training and case.labelled and case.scored and self.bus.step and not call.compiled:
            case.asked = True
            if perf_counter() - self._began < SLOWEST:
                self._test(call, known, case, inputs)
            return
        case.inputs = [weakref.ref(tensor) for tensor in inputs]
        case.outputs = [weakref.ref(tensor) for tensor in tensors_in(call.output, limit=OUTPUTS)]

    def loss_called(self, loss: LossCall) -> None:
        case = self._latest
        if case is None or case.asked or (case.labelled and case.training) or self.bus.call is not None:
            return
        if not any(same_memory(tensor, loss.input) for ref in case.outputs if (tensor := ref()) is not None):
            return
        if _is_made_of(loss.target, case):
            case.asked = True  # an autoencoder, or image to image: no labels
        case.labelled = True
        case.scored = case.scored or not case.training

    def decision_made(self, decision: DecisionCall) -> None:
        case = self._latest
        if case is not None and not case.asked and not case.training:
            case.scored = case.scored or any(ref() is decision.input for ref in case.outputs)

    # -- the question --

    def _test(self, call: ModuleCall, known: KnownModel, case: _Case, inputs: list[Tensor]) -> None:
        size = inputs[0].shape[0] if inputs and inputs[0].dim() else 0
        if not size:
            return
        model, few = unwrapped(call.module), min(size, MOST)
        given: Inputs = mapped(
            (call.args, dict(call.kwargs)), lambda t: (t[:few] if t.dim() and t.shape[0] == size else t).detach()
        )
        try:
            with torch.no_grad():
                twin, draws = ReplayCopy(model), Draws()
                first = _numbers(twin.run(given, draws, SEEDS[0]))
                change = max(_distance(first, _numbers(twin.run(given, None, seed))) for seed in SEEDS[1:])
        except CannotReplay:
            return
        if draws.drops and not draws.names:
            return  # dropout-always-on reports that
        named = "" if call.place is None else call.place.function
        self.emit(
            EvaluationRepeated,
            call.place,
            model=known.number,
            name=known.name,
            batch=few,
            change=change,
            drawn=tuple(draws.names),
            drawn_at=draws.place or (_line_drawing(model) if change else None),
            sampling=draws.sampling or case.repeats or _means_randomness(f"{named} {known.name}"),
        )


def _is_made_of(target: Tensor, case: _Case) -> bool:
    """As many numbers as the input, several per sample: the input, or something of its kind."""
    inputs = [tensor for ref in case.inputs if (tensor := ref()) is not None]
    if len(inputs) < len(case.inputs):
        return True  # it is freed: unknown
    several = target.is_floating_point() and target.dim() > 0 and target.numel() > target.shape[0]
    outputs = [tensor for ref in case.outputs if (tensor := ref()) is not None]
    return any(target is other for other in outputs) or (several and any(g.numel() == target.numel() for g in inputs))


def _numbers(output: Any) -> list[Tensor]:
    return [t.double() for t in list(tensors_in(output))[:OUTPUTS] if t.is_floating_point() and t.numel()]


def _distance(one: list[Tensor], other: list[Tensor]) -> float:
    """The largest change, relative to the largest value."""
    if [tensor.shape for tensor in one] != [tensor.shape for tensor in other]:
        return 1.0
    changes = [float((a - b).abs().max() / a.abs().max().clamp_min(1e-12)) for a, b in zip(one, other, strict=True)]
    return max((change for change in changes if change == change), default=0.0)


# -- what names say --


def _means_randomness(name: str) -> bool:
    words = words_of(name)
    return says_monte_carlo(name) or any(_RANDOM_WORD.match(word) for word in words)


def _names_randomness(frame: FrameType) -> bool:
    """A function of torch.distributions, or one of the user's with a telling name."""
    code = frame.f_code
    if "distributions" in code.co_filename or code.co_name == "gumbel_softmax":
        return True
    return is_users(code.co_filename) and _means_randomness(code.co_qualname)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """From a draw to the call of the model's copy."""
    own = __file__
    for _ in range(DEEP):
        if frame is None or frame.f_code.co_filename == own:
            return
        yield frame
        frame = frame.f_back


def _line_drawing(model: nn.Module) -> Place | None:
    """The only line of the model's classes, outside constructors, that draws from Python's or NumPy's generator."""
    found: dict[tuple[str, int], Place] = {}
    for module in model.modules():
        for cls, place in users_classes(module):
            source = source_of(place.path)
            written = source.class_named(cls.__name__)
            for method in written.body if written is not None else []:
                if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                    for call in calls_in(method):
                        if re.match(r"(random|np\.random|numpy\.random)\.", source.text(call.func)):
                            found[place.path, call.lineno] = source.place(call, method.name)
    return next(iter(found.values())) if len(found) == 1 else None
