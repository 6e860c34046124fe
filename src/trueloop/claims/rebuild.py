"""A model is built again and loaded with the saved state: does it give the same output, and what do the two not share?

    python -m trueloop.claims.rebuild OUT.json STEPS train.py ...

runs a script, records how its modules are constructed, and at its end constructs the trained model a second time with
the same arguments.
"""

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

from trueloop.claims.operation_trace import find_program
from trueloop.claims.tensor_digest import bit_identical, digest_of_all
from trueloop.data.source import tensors_in
from trueloop.doctor.launch import run
from trueloop.engine.evaluate import evaluating
from trueloop.engine.layers import remove_after
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.taps.bus import StopTheRun
from trueloop.torch_private.modules import CALL_FRAMES, own_buffers, own_parameters
from trueloop.usercode.ownership import layer_place

__all__ = ["Rebuilt", "rebuild_and_load", "save_and_load"]

SEED: Final = 7  # while a model is called
BUILD_SEED: Final = 70_001  # while a model is built again: a process that loads has drawn different numbers
MODULE_ATTRIBUTES: Final = frozenset(vars(nn.Module()))


@dataclass(frozen=True)
class Rebuilt:
    problem: str = ""  # why nothing could be compared
    load_error: str = ""  # the message of load_state_dict
    same: bool = False  # the outputs are bit-identical
    tensors: int = 0  # in the state
    layer: str | None = None  # the first whose output differs
    attributes: tuple[str, ...] = ()  # `layer.attribute` outside the state that the two models do not share
    place: tuple[str, int, str] | None = None  # the line that assigns the first of them, or builds the layer
    model: str = ""

    def at(self) -> Place | None:
        return Place(*self.place) if self.place else None


def save_and_load(state: Mapping[str, Any], device: torch.device | None = None) -> dict[str, Any]:
    """The state after torch.save and torch.load(weights_only=True)."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    return loaded


def rebuild_and_load(
    model: nn.Module, build: Callable[[], nn.Module], state: Mapping[str, Any], call: Callable[[nn.Module], Any]
) -> Rebuilt:
    """`build` makes the model again; `call` calls a model in eval mode."""
    first, layers = _output(model, call)
    if _output(model, call)[0] != first:
        return Rebuilt(problem="its outputs differ from call to call; see the claim evaluation-repeats")
    with fence(BUILD_SEED):
        fresh = build()
    fresh = fresh.to(next((parameter.device for parameter in model.parameters()), torch.device("cpu")))
    tensors, name = sum(1 for _ in tensors_in(dict(state))), type(model).__name__
    try:
        fresh.load_state_dict(state)
    except RuntimeError as error:
        message, differing = " ".join(str(error).split()), tuple(_differing_attributes(model, fresh))
        message, place = message.partition(": ")[2] or message, _place(model, differing, None)
        return Rebuilt(load_error=message, tensors=tensors, attributes=differing, place=place, model=name)
    again, other_layers = _output(fresh, call)
    if again == first:
        return Rebuilt(same=True, tensors=tensors, model=name)
    layer = next((one[0] for one, other in zip(layers, other_layers, strict=False) if one != other), None)
    differing = tuple(_differing_attributes(model, fresh))
    place = _place(model, differing, layer)
    return Rebuilt(tensors=tensors, layer=layer, attributes=differing, place=place, model=name)


def _output(model: nn.Module, call: Callable[[nn.Module], Any]) -> tuple[int, list[tuple[str, int]]]:
    """A digest of the output of the model, and of each layer, in the order in which they return."""
    layers: list[tuple[str, int]] = []

    def record(name: str) -> Any:
        return lambda *call: layers.append((name, digest_of_all(call[-1])))

    hooks = (module.register_forward_hook(record(name)) for name, module in model.named_modules())
    with remove_after(hooks), evaluating(model), fence(SEED):
        return digest_of_all(call(model)), layers


# -- what the state does not hold --


def _differing_attributes(model: nn.Module, fresh: nn.Module) -> Iterator[str]:
    """Plain attributes with different values, of layers that both models have; parameters and buffers of one only."""
    others = dict(fresh.named_modules())
    for name, module in model.named_modules():
        other = others.get(name)
        for attribute, value in vars(module).items() if other is not None else ():
            if attribute not in MODULE_ATTRIBUTES and not _equal(value, vars(other).get(attribute)):
                yield _path(name, attribute)
        known = set() if other is None else _tensors(other).keys()
        yield from (_path(name, key) for key in _tensors(module).keys() - known)


def _tensors(module: nn.Module) -> dict[str, Tensor | None]:
    """Its own parameters and buffers."""
    return {**own_parameters(module), **own_buffers(module)}


def _path(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _equal(one: Any, other: Any) -> bool:
    """By value, where that is possible; else True."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and bit_identical(one.detach().cpu(), other.detach().cpu())
    if isinstance(one, numpy.ndarray):
        return isinstance(other, numpy.ndarray) and one.tobytes() == other.tobytes()
    if isinstance(one, (bool, int, float, str)):
        return type(one) is type(other) and bool(one == other)
    if isinstance(one, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict):
        same_keys = isinstance(other, dict) and one.keys() == other.keys()
        return same_keys and all(_equal(value, other[key]) for key, value in one.items())
    return True


def _place(model: nn.Module, attributes: tuple[str, ...], layer: str | None) -> tuple[str, int, str] | None:
    name = attributes[0] if attributes else layer
    place = layer_place(model, name) if name else None
    return (place.path, place.line, place.function) if place is not None else None


# -- in a script's process --


@dataclass
class _Construction:
    """How an object was constructed."""

    kind: type
    named: dict[str, Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@final
class Recorder:
    """How modules were constructed, the last input of each model, and which of them are trained."""

    def __init__(self, steps: int | None) -> None:
        self.constructions: WeakKeyDictionary[nn.Module, _Construction] = WeakKeyDictionary()
        # The last input of each module that was called from outside any other.
        self.calls: dict[int, tuple[nn.Module, tuple[Any, ...]]] = {}
        self.trained: set[int] = set()  # ids of parameters that an optimizer has stepped
        self.before_first_call: dict[int, dict[str, str]] = {}  # description of each model
        self.after_first_call: dict[int, dict[str, str]] = {}  # with the layers created in it
        self.steps, self._most = 0, steps

    def constructed(self, module: nn.Module, frame: FrameType | None) -> None:
        """The outermost `__init__` of this object is the one that was called; its arguments are still its locals."""
        outermost = None
        while frame is not None and frame.f_code.co_name == "__init__":
            if frame.f_locals.get(frame.f_code.co_varnames[0]) is not module:
                break
            outermost, frame = frame, frame.f_back
        if outermost is not None and module not in self.constructions:
            seen = inspect.getargvalues(outermost)
            named = {name: seen.locals[name] for name in seen.args[1:]}
            args, kwargs = seen.locals.get(seen.varargs or "", ()), seen.locals.get(seen.keywords or "", {})
            self.constructions[module] = _Construction(type(module), named, tuple(args), dict(kwargs))

    def called(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_name in (*CALL_FRAMES, "inner"):
            frame = frame.f_back
        outermost = frame is not None and not isinstance(frame.f_locals.get("self"), nn.Module)
        if outermost and next(module.parameters(), None) is not None:
            self.calls[id(module)] = (module, inputs)
            if id(module) not in self.before_first_call:
                self.before_first_call[id(module)] = _description(module)

    def returned(self, module: nn.Module, *_: Any) -> None:
        if id(module) in self.before_first_call and id(module) not in self.after_first_call:
            self.after_first_call[id(module)] = _description(module, settings=False)

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        self.trained |= {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        self.steps += 1
        if self._most is not None and self.steps >= self._most:
            raise StopTheRun(f"{self._most} steps are enough")

    def model(self) -> tuple[nn.Module, tuple[Any, ...]] | None:
        """The one with the most trained elements."""

        def size(module: nn.Module) -> int:
            return sum(parameter.numel() for parameter in module.parameters() if id(parameter) in self.trained)

        found = max(self.calls.values(), key=lambda call: size(call[0]), default=None)
        return found if found is not None and size(found[0]) else None

    def construct_again(self, value: Any) -> Any:
        """A copy in which every module is constructed again."""
        if isinstance(value, nn.Module):
            made = self.constructions[value]
            named = {name: self.construct_again(item) for name, item in made.named.items()}
            if made.args:
                return made.kind(*named.values(), *map(self.construct_again, made.args), **made.kwargs)
            return made.kind(**named, **{name: self.construct_again(item) for name, item in made.kwargs.items()})
        if isinstance(value, dict):
            return type(value)((key, self.construct_again(item)) for key, item in value.items())
        return type(value)(map(self.construct_again, value)) if type(value) in (list, tuple) else value


def _description(model: nn.Module, *, settings: bool = True) -> dict[str, str]:
    """Layers, shapes of their parameters, and their plain settings. A replaced head or a changed dropout rate is set
    outside the constructor, so a second construction does not have it."""
    words: dict[str, str] = {}
    for name, module in model.named_modules():
        words[name or type(model).__name__] = type(module).__qualname__
        for key, kept in _tensors(module).items():
            words[_path(name, key)] = str(None if kept is None else list(kept.shape))
        own = ((key, value) for key, value in vars(module).items() if settings and key not in MODULE_ATTRIBUTES)
        words |= {_path(name, key): repr(value) for key, value in own if isinstance(value, (bool, int, float, str))}
    return words


def _first_change(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    return next((name for name in {**one, **other} if one.get(name) != other.get(name)), None)


@contextmanager
def _recording(recorder: Recorder) -> Iterator[None]:
    original = nn.Module.__init__

    def init(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        recorder.constructed(module, sys._getframe(1))

    setattr(nn.Module, "__init__", init)  # noqa: B010 - the type checker does not let a method be assigned
    hooks = [register_module_forward_pre_hook(recorder.called), register_module_forward_hook(recorder.returned)]
    try:
        with remove_after([*hooks, register_optimizer_step_post_hook(recorder.stepped)]):
            yield
    finally:
        setattr(nn.Module, "__init__", original)  # noqa: B010


def main(words: list[str]) -> int:
    """OUT STEPS and SCRIPT or -m MODULE, with its arguments."""
    out, steps, *command = words
    recorder = Recorder(int(steps) or None)
    with _recording(recorder):
        run(find_program(command))
    Path(out).write_text(json.dumps(asdict(_rebuild_trained(recorder))), encoding="utf-8")
    return 0


def _rebuild_trained(recorder: Recorder) -> Rebuilt:
    found = recorder.model()
    if found is None:
        return Rebuilt(problem="no model was called and trained with a torch optimizer")
    model, inputs = found
    name, number = type(model).__name__, id(model)
    try:
        with fence(BUILD_SEED):
            fresh = _description(recorder.construct_again(model))
        now, after = _description(model, settings=False), recorder.after_first_call[number]
        changes = {
            "between its construction and its first call": _first_change(recorder.before_first_call[number], fresh),
            "after its first call": _first_change(after, now),
        }
        for when, changed in changes.items():
            if changed is not None:
                return Rebuilt(problem=f"{name} was changed {when} ({changed}), so it cannot be constructed again")
        state = save_and_load(model.state_dict())
        return rebuild_and_load(model, lambda: recorder.construct_again(model), state, lambda made: made(*inputs))
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything when it is called again
        reason = f"{type(error).__name__}: {error}"
        return Rebuilt(problem=f"{name} could not be constructed and called a second time ({reason})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
