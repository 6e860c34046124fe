"""A model built anew and filled with the saved state of another: does it answer the same, and what do the two not
share?

    python -m trueloop.claims.reload OUT.json STEPS train.py ...

runs a script, notes how its modules are made, and at its end builds the one that was trained a second time, by the same
arguments.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import numpy
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from trueloop.claims.digest import digest_of_all, same_bits
from trueloop.data.source import tensors_in
from trueloop.doctor.launch import find_module, find_script, run
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.taps.bus import StopTheRun
from trueloop.torch_private.modules import CALL_FRAMES, own_buffers, own_parameters
from trueloop.usercode.ownership import layer_place

__all__ = ["Reloaded", "reloaded", "through_a_file"]

SEED: Final = 7
"""Of the random numbers while a model answers,"""
OTHER_SEED: Final = 70_001
"""and of those that a model is built by the second time: a process that loads has drawn others."""
_OWN: Final = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


@dataclass(frozen=True)
class Reloaded:
    """What came of it."""

    problem: str = ""
    """Why nothing could be compared."""
    refused: str = ""
    """What load_state_dict said."""
    same: bool = False
    """The answers are the same to the last bit."""
    tensors: int = 0
    """In the state."""
    layer: str | None = None
    """The first whose output differs."""
    attributes: tuple[str, ...] = ()
    """`layer.attribute` of what the two models keep outside of their states, and do not share."""
    place: tuple[str, int, str] | None = None
    """The line that assigns the first of them, or makes the layer."""
    model: str = ""

    def at(self) -> Place | None:
        return Place(*self.place) if self.place else None


def through_a_file(state: Mapping[str, Any]) -> dict[str, Any]:
    """As torch.save writes and torch.load reads it, refusing whatever is no plain value."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    file.seek(0)
    read: dict[str, Any] = torch.load(file, weights_only=True)
    return read


def reloaded(
    model: nn.Module, build: Callable[[], nn.Module], state: Mapping[str, Any], ask: Callable[[nn.Module], Any]
) -> Reloaded:
    """`build` makes the model anew; `ask` calls a model, in eval mode."""
    first, layers = _answer(model, ask)
    if _answer(model, ask)[0] != first:
        return Reloaded(problem="its answers differ from call to call (see evaluation-repeats)")
    with fence(OTHER_SEED):
        fresh = build()
    fresh = fresh.to(next((parameter.device for parameter in model.parameters()), torch.device("cpu")))
    tensors = sum(1 for _ in tensors_in(dict(state)))
    name = type(model).__name__
    try:
        fresh.load_state_dict(state)
    except RuntimeError as error:
        said, unlike = " ".join(str(error).split()), list(_unlike(model, fresh))
        return Reloaded(
            "", said.partition(": ")[2] or said, False, tensors, None, tuple(unlike), _place(model, unlike, None), name
        )
    again, others = _answer(fresh, ask)
    if again == first:
        return Reloaded(same=True, tensors=tensors, model=name)
    layer = next((here[0] for here, there in zip(layers, others, strict=False) if here != there), None)
    unlike = list(_unlike(model, fresh))
    return Reloaded("", "", False, tensors, layer, tuple(unlike), _place(model, unlike, layer), name)


def _answer(model: nn.Module, ask: Callable[[nn.Module], Any]) -> tuple[int, list[tuple[str, int]]]:
    """A digest of what comes out of it, and of each of its layers, in the order in which they end."""
    layers: list[tuple[str, int]] = []

    def follow(name: str) -> Any:
        return lambda *call: layers.append((name, digest_of_all(call[-1])))

    modes = [(module, module.training) for module in model.modules()]
    hooks = [module.register_forward_hook(follow(name)) for name, module in model.named_modules()]
    try:
        with fence(SEED), torch.no_grad():
            return digest_of_all(ask(model.eval())), layers
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training


# -- what the state does not hold --


def _unlike(model: nn.Module, fresh: nn.Module) -> Iterator[str]:
    """Plain attributes with other contents: of layers that both have."""
    others = dict(fresh.named_modules())
    for name, module in model.named_modules():
        other = others.get(name)
        for attribute, value in vars(module).items() if other is not None else ():
            if attribute not in _OWN and not _alike(value, vars(other).get(attribute)):
                yield f"{name}.{attribute}" if name else attribute
        yield from (_path(name, key) for key in _kept(module) - (_kept(other) if other is not None else set()))


def _path(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _kept(module: nn.Module) -> set[str]:
    """Its own parameters and buffers, by name; made in a forward, some are not there in a fresh model."""
    return {*own_parameters(module), *own_buffers(module)}


def _alike(one: Any, other: Any) -> bool:
    """Only what can be compared by value is."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and same_bits(one.detach().cpu(), other.detach().cpu())
    if isinstance(one, numpy.ndarray):
        return isinstance(other, numpy.ndarray) and one.tobytes() == other.tobytes()
    if isinstance(one, (bool, int, float, str)):
        return type(one) is type(other) and bool(one == other)
    if isinstance(one, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_alike(value, other[key]) for key, value in one.items())
        )
    return True


def _place(model: nn.Module, attributes: list[str], layer: str | None) -> tuple[str, int, str] | None:
    name = attributes[0] if attributes else layer
    place = layer_place(model, name) if name else None
    return (place.path, place.line, place.function) if place is not None else None


# -- in a script's process --


@dataclass
class _Birth:
    """How an object was made."""

    kind: type
    given: dict[str, Any]
    """By name."""
    more: tuple[Any, ...] = ()
    """By *args."""
    rest: dict[str, Any] = field(default_factory=dict)
    """By **kwargs."""


@final
class Notes:
    """How modules were made, what the last call of each model was given, and which of them are trained."""

    def __init__(self, steps: int | None) -> None:
        self.births: WeakKeyDictionary[nn.Module, _Birth] = WeakKeyDictionary()
        self.calls: dict[int, tuple[nn.Module, tuple[Any, ...]]] = {}
        """The last input of each module that was called from outside any other."""
        self.trained: set[int] = set()
        """Identities of parameters that a step was taken for."""
        self.begun: dict[int, dict[str, str]] = {}
        """What each model was made of right before its first call,"""
        self.settled: dict[int, dict[str, str]] = {}
        """and of which layers after it: what is made in a first forward is there then."""
        self.steps, self._most = 0, steps

    def born(self, module: nn.Module, frame: FrameType | None) -> None:
        """The outermost constructor of this very object is the one that was called; what it was given still lies in its
        names."""
        outermost = None
        while (
            frame is not None
            and frame.f_code.co_name == "__init__"
            and frame.f_locals.get(frame.f_code.co_varnames[0]) is module
        ):
            outermost, frame = frame, frame.f_back
        if outermost is not None and module not in self.births:
            seen = inspect.getargvalues(outermost)
            given = {name: seen.locals[name] for name in seen.args[1:]}
            more, rest = (
                seen.locals.get(name or "", empty) for name, empty in ((seen.varargs, ()), (seen.keywords, {}))
            )
            self.births[module] = _Birth(type(module), given, tuple(more), dict(rest))

    def called(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_name in (*CALL_FRAMES, "inner"):
            frame = frame.f_back
        if (
            frame is not None
            and not isinstance(frame.f_locals.get("self"), nn.Module)
            and next(module.parameters(), None) is not None
        ):
            self.calls[id(module)] = (module, given)
            if id(module) not in self.begun:
                self.begun[id(module)] = _made_of(module)

    def returned(self, module: nn.Module, *_: Any) -> None:
        if id(module) in self.begun and id(module) not in self.settled:
            self.settled[id(module)] = _made_of(module, settings=False)

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        self.trained |= {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        self.steps += 1
        if self._most is not None and self.steps >= self._most:
            raise StopTheRun(f"{self._most} steps are enough")

    def model(self) -> tuple[nn.Module, tuple[Any, ...]] | None:
        """The one with the most numbers that are trained."""

        def size(module: nn.Module) -> int:
            return sum(parameter.numel() for parameter in module.parameters() if id(parameter) in self.trained)

        found = max(self.calls.values(), key=lambda call: size(call[0]), default=None)
        return found if found is not None and size(found[0]) else None

    def again(self, value: Any) -> Any:
        """The same, made anew wherever it is a module or holds some."""
        if isinstance(value, nn.Module):
            birth = self.births[value]
            named = {name: self.again(given) for name, given in birth.given.items()}
            if birth.more:
                return birth.kind(*named.values(), *map(self.again, birth.more), **birth.rest)
            return birth.kind(**named, **{name: self.again(given) for name, given in birth.rest.items()})
        if isinstance(value, dict):
            return type(value)((key, self.again(item)) for key, item in value.items())
        return type(value)(self.again(item) for item in value) if type(value) in (list, tuple) else value


def _made_of(model: nn.Module, *, settings: bool = True) -> dict[str, str]:
    """Layers, the shapes of what they keep, and their plain settings, each as a word. A head that was put in place of
    another, or a dropout that was turned down, is the user's doing, which whoever loads does again: a constructor alone
    does not know of it."""
    told: dict[str, str] = {}
    for name, module in model.named_modules():
        told[name or type(model).__name__] = type(module).__qualname__
        told |= {_path(name, key): str(None if kept is None else list(kept.shape)) for key, kept in _own(module)}
        plain = (
            (key, value)
            for key, value in vars(module).items()
            if key not in _OWN and isinstance(value, (bool, int, float, str))
        )
        told |= {_path(name, key): repr(value) for key, value in plain if settings}
    return told


def _first_unlike(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    return next((name for name in {**one, **other} if one.get(name) != other.get(name)), None)


def _own(module: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    yield from own_parameters(module).items()
    yield from own_buffers(module).items()


@contextmanager
def _noting(notes: Notes) -> Iterator[None]:
    original = nn.Module.__init__

    def init(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        notes.born(module, sys._getframe(1))

    setattr(nn.Module, "__init__", init)  # noqa: B010 - the type checker does not let a method be assigned
    hooks = [
        register_module_forward_pre_hook(notes.called),
        register_module_forward_hook(notes.returned),
        register_optimizer_step_post_hook(notes.stepped),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        setattr(nn.Module, "__init__", original)  # noqa: B010


def main(words: list[str]) -> int:
    """OUT STEPS and a script or -m MODULE, with its arguments."""
    out, steps, *target = words
    notes = Notes(int(steps) or None)
    program = find_module(target[1], target[2:]) if target[0] == "-m" else find_script(target[0], target[1:])
    with _noting(notes):
        run(program)
    Path(out).write_text(json.dumps(asdict(_of_the_trained(notes))), encoding="utf-8")
    return 0


def _of_the_trained(notes: Notes) -> Reloaded:
    found = notes.model()
    if found is None:
        return Reloaded(problem="no model was called and trained by an optimizer of torch's")
    model, given = found
    try:
        with fence(OTHER_SEED):
            fresh = _made_of(notes.again(model))
        name, settled = type(model).__name__, notes.settled[id(model)]
        if (changed := _first_unlike(notes.begun[id(model)], fresh)) is not None:
            return Reloaded(
                problem=f"{name} was changed between its making and its first call ({changed}): a second one is not made so"
            )
        if (changed := _first_unlike(settled, _made_of(model, settings=False))) is not None:
            return Reloaded(problem=f"{name} was changed after its first call ({changed}): a second one is not made so")
        state = through_a_file(model.state_dict())
        return reloaded(model, lambda: notes.again(model), state, lambda made: made(*given))
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises when it is asked again, the answer is that it cannot be
        return Reloaded(
            problem=f"{type(model).__name__} could not be built and asked a second time ({type(error).__name__}: {error})"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
