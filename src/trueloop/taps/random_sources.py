"""The sources of random numbers: global generators, generators that an object holds, and the calls that seed them.

Only for use in a forked process (`fork.run_in_fork`), because it replaces the seeding functions.
"""

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy
import torch

from trueloop.event import Place
from trueloop.measure.randomness import GlobalRandomStates
from trueloop.taps.place import here

__all__ = ["Part", "RandomStates", "SeedRecorder", "is_generator", "parts_of", "reseed"]

DEPTH: Final = 6  # Levels of attributes that are searched: a dataset in a subset in a wrapper, and its transforms
MOST: Final = 4000  # Objects that are searched: enough for any program, and fast
FEW: Final = 64  # Containers up to this size are searched completely; of larger ones, only the keys that are drawn

_GENERATORS: Final = (numpy.random.Generator, numpy.random.RandomState, random.Random, torch.Generator)
_ATOMS: Final = (str, bytes, int, float, complex, bool, type(None), type, range)


class Part(NamedTuple):
    """A tensor, an array or a generator that an object holds, and the attribute or global name that leads to it."""

    value: Any
    owner: Any  # The object with the attribute; None for a global name
    attribute: str
    path: str  # The file of a global name


def is_generator(value: object) -> bool:
    return isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom)


def parts_of(root: Any, keys: list[Any]) -> Iterator[Part]:
    """What an object holds in attributes, and in global names that its methods read; each thing once."""
    waiting: list[tuple[Any, Part, int]] = [(root, Part(root, None, "", ""), 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST:
        value, part, depth = waiting.pop(0)
        if isinstance(value, _ATOMS) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (torch.Tensor, numpy.ndarray)) or is_generator(value):
            yield Part(value, part.owner, part.attribute, part.path)
        elif depth < DEPTH:
            inside = _inside(value, keys)
            waiting += [(inner, _part(part, value, name, path), depth + 1) for inner, name, path in inside]


def _part(outer: Part, owner: Any, name: str, path: str) -> Part:
    """An item of a container belongs to the attribute that holds the container."""
    return Part(None, None if path else owner, name, path) if name else outer


def _inside(value: Any, keys: list[Any]) -> Iterator[tuple[Any, str, str]]:
    """(thing, attribute or '' for an item, file of a global name)."""
    if isinstance(value, Mapping):
        chosen = list(value.values()) if len(value) <= FEW else [value[key] for key in keys if key in value]
        yield from ((item, "", "") for item in chosen)
    elif isinstance(value, (list, tuple)):
        some = [key for key in keys if isinstance(key, int) and key < len(value)]
        chosen = list(value) if len(value) <= FEW else [value[key] for key in some]
        yield from ((item, "", "") for item in chosen)
    elif isinstance(value, FunctionType):
        yield from _read_by(value)
    elif isinstance(value, functools.partial):
        yield from ((item, "", "") for item in (value.func, *value.args, *value.keywords.values()))
    else:
        yield from ((item, name, "") for name, item in getattr(value, "__dict__", {}).items())
        if (owner := getattr(value, "__self__", None)) is not None:  # a bound method
            yield owner, "", ""
        for cls in type(value).__mro__:
            for method in vars(cls).values():
                if isinstance(method, FunctionType) and not cls.__module__.startswith(("torch.", "builtins")):
                    yield from _read_by(method)


def _read_by(function: FunctionType) -> Iterator[tuple[Any, str, str]]:
    """Generators and arrays that a function reads from its closure and by global names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, "", ""
        except ValueError:  # not filled yet
            continue
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, (torch.Tensor, numpy.ndarray)) or is_generator(value):
            yield value, name, function.__code__.co_filename


# -- states --


class RandomStates:
    """The current states of the global generators and of some others."""

    def __init__(self, generators: list[Any]) -> None:
        self._generators = generators
        self._global = GlobalRandomStates(devices=False)
        self._own = [_state_of(generator) for generator in generators]

    def restore(self) -> None:
        self._global.restore()
        for generator, state in zip(self._generators, self._own, strict=True):
            _set_state(generator, state)

    def used(self) -> list[Any]:
        """The other generators that have been drawn from since."""
        pairs = zip(self._generators, self._own, strict=True)
        return [generator for generator, state in pairs if _comparable(_state_of(generator)) != _comparable(state)]


def _state_of(generator: Any) -> Any:
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = state
    else:
        (generator.setstate if isinstance(generator, random.Random) else generator.set_state)(state)


def _comparable(state: Any) -> object:
    """A state as a value that can be compared with ==."""
    if isinstance(state, torch.Tensor):
        return bytes(state.tolist())
    if isinstance(state, dict):
        return {name: _comparable(value) for name, value in state.items()}
    if isinstance(state, tuple):
        return tuple(_comparable(value) for value in state)
    return state.tobytes() if isinstance(state, numpy.ndarray) else state


def reseed(generator: Any, seed: int) -> None:
    """Make a generator return different numbers from now on."""
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    else:
        generator.seed(seed)


# -- seeding --


@dataclass
class SeedRecorder:
    """Replaces the seeding functions: records calls and seeds, and, if `deaf`, uses a different seed each time."""

    deaf: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)  # (function, repr of the seed)
    place: Place | None = None  # The user's first line that seeds
    _count: int = 0

    def install(self) -> None:
        wrap = self._wrap
        random.seed = wrap(random.seed, "random.seed")
        numpy.random.seed = wrap(numpy.random.seed, "numpy.random.seed")
        torch.manual_seed = torch.random.manual_seed = wrap(torch.manual_seed, "torch.manual_seed")
        numpy.random.default_rng = wrap(numpy.random.default_rng, "numpy.random.default_rng", makes=True)
        seedings = self

        class Twister(random.Random):
            def seed(self, a: Any = None, version: int = 2) -> None:
                super().seed(seedings.record("random.Random", a), version)

        class Mersenne(numpy.random.RandomState):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(seedings.record("numpy.random.RandomState", seed))

        class Philox(torch.Generator):
            def manual_seed(self, seed: int) -> torch.Generator:
                return super().manual_seed(seedings.record("torch.Generator.manual_seed", seed))

        replacements = ((random, "Random", Twister), (numpy.random, "RandomState", Mersenne))
        for module, name, replacement in (*replacements, (torch, "Generator", Philox)):
            setattr(module, name, replacement)

    def record(self, function: str, seed: Any) -> Any:
        """Record a call; returns the seed to use."""
        place = here(3)
        if place is None or seed is None:
            return seed  # a library's own, or fresh entropy
        self.notes.append((function, repr(seed)))
        self.place = self.place or place
        self._count += 1
        return 7919 * self._count if self.deaf else seed

    def _wrap(self, original: Callable[..., Any], name: str, *, makes: bool = False) -> Callable[..., Any]:
        def seed(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values(), None][0]
            used = self.record(name, given)
            return original(used) if makes or not self.deaf else None

        return seed
