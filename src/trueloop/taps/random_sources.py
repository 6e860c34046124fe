"""Where random numbers come from: the global generators, those that an object keeps, and who seeds them.

For use in a copy of the process only (`fork.run_in_fork`): reading and setting states is harmless, replacing the
functions that seed is not.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

import numpy
import torch

from trueloop.event import Place
from trueloop.measure.randomness import GlobalRandomStates
from trueloop.taps.place import here

__all__ = ["Part", "RandomStates", "SeedRecorder", "is_generator", "parts_of", "reseed"]

DEPTH: Final = 6
"""How far one follows attributes: a dataset in a subset in a wrapper, and its transforms."""
MOST: Final = 4000
"""Objects that are looked at: enough for any program's own parts, and few enough to take no time."""
FEW: Final = 64
"""Items of a container that are all looked at; of larger ones, those at the keys that are drawn."""

_GENERATORS: Final = (numpy.random.Generator, numpy.random.RandomState, random.Random, torch.Generator)
_ATOMS: Final = (str, bytes, int, float, complex, bool, type(None), type, range)


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor, an array or a generator that an object keeps, and the attribute (or global name) that leads to it."""

    value: Any
    owner: Any
    """Who has the attribute; None for a global name."""
    attribute: str
    path: str
    """The file of a global name."""


def is_generator(value: object) -> bool:
    return isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom)


def parts_of(root: Any, keys: list[Any]) -> Iterator[Part]:
    """What an object keeps, by its attributes, and by the global names that its methods read; each thing once."""
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
            waiting += [
                (inner, _part(part, value, name, path), depth + 1) for inner, name, path in _inside(value, keys)
            ]


def _part(outer: Part, owner: Any, name: str, path: str) -> Part:
    """An item of a container belongs to the attribute that holds the container."""
    return Part(None, None if path else owner, name, path) if name else outer


def _inside(value: Any, keys: list[Any]) -> Iterator[tuple[Any, str, str]]:
    """(thing, attribute or '' for an item, file of a global name)."""
    if isinstance(value, Mapping):
        chosen = list(value.values()) if len(value) <= FEW else [value[key] for key in keys if key in value]
        yield from ((item, "", "") for item in chosen)
    elif isinstance(value, (list, tuple)):
        chosen = (
            list(value)
            if len(value) <= FEW
            else [value[key] for key in keys if isinstance(key, int) and key < len(value)]
        )
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
    """The states of the global generators and of some others, as of now."""

    def __init__(self, generators: list[Any]) -> None:
        self._generators = generators
        self._global = GlobalRandomStates(devices=False)
        self._own = [_state_of(generator) for generator in generators]

    def put_back(self) -> None:
        self._global.restore()
        for generator, state in zip(self._generators, self._own, strict=True):
            _set_state(generator, state)

    def moved(self) -> list[Any]:
        """Those of the other generators that have been drawn from since."""
        pairs = zip(self._generators, self._own, strict=True)
        return [generator for generator, state in pairs if _told(_state_of(generator)) != _told(state)]


def _state_of(generator: Any) -> Any:
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, numpy.random.RandomState):
        return generator.get_state()
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, numpy.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _told(state: Any) -> object:
    """A state as something that compares by value."""
    if isinstance(state, torch.Tensor):
        return bytes(state.tolist())
    if isinstance(state, dict):
        return {name: _told(value) for name, value in state.items()}
    if isinstance(state, tuple):
        return tuple(_told(value) for value in state)
    return state.tobytes() if isinstance(state, numpy.ndarray) else state


def reseed(generator: Any, seed: int) -> None:
    """Other random numbers from here on."""
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    else:
        generator.seed(seed)


# -- who seeds --


@dataclass
class SeedRecorder:
    """Stands in for the functions that seed: notes who calls them with what, and, if deaf, seeds with something else
    each time."""

    deaf: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(function, seed as written out)."""
    place: Place | None = None
    """The first line of the user's that seeded."""
    _count: int = 0

    def install(self) -> None:
        listen = self._listening
        random.seed = listen(random.seed, "random.seed")
        numpy.random.seed = listen(numpy.random.seed, "numpy.random.seed")
        torch.manual_seed = torch.random.manual_seed = listen(torch.manual_seed, "torch.manual_seed")
        numpy.random.default_rng = listen(numpy.random.default_rng, "numpy.random.default_rng", makes=True)
        seedings = self

        class Twister(random.Random):
            def seed(self, a: Any = None, version: int = 2) -> None:
                super().seed(seedings.heard("random.Random", a), version)

        class Mersenne(numpy.random.RandomState):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(seedings.heard("numpy.random.RandomState", seed))

        class Philox(torch.Generator):
            def manual_seed(self, seed: int) -> torch.Generator:
                return super().manual_seed(seedings.heard("torch.Generator.manual_seed", seed))

        for module, name, set_base_folder in (
            (random, "Random", Twister),
            (numpy.random, "RandomState", Mersenne),
            (torch, "Generator", Philox),
        ):
            setattr(module, name, set_base_folder)

    def heard(self, function: str, seed: Any) -> Any:
        """What to seed with."""
        place = here(3)
        if place is None or seed is None:
            return seed  # a library's own, or fresh entropy
        self.notes.append((function, repr(seed)))
        self.place = self.place or place
        self._count += 1
        return 7919 * self._count if self.deaf else seed

    def _listening(self, original: Callable[..., Any], name: str, *, makes: bool = False) -> Callable[..., Any]:
        def seed(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values(), None][0]
            used = self.heard(name, given)
            return original(used) if makes or not self.deaf else None

        return seed
