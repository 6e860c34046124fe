"""`--over`: the settings of a sweep, a grid or random draws. Pure: the same command gives the same settings."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from trueloop.errors import Misuse

__all__ = ["Axis", "axes_of", "grid", "random_settings"]

DRAWS: Final = 50  # per setting that is asked for, before a small space counts as exhausted
DIGITS: Final = 3  # of a drawn number


@dataclass(frozen=True, slots=True)
class Axis:
    """One field that is varied: over values, or within a range."""

    name: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False  # the range is one of whole numbers

    @property
    def is_range(self) -> bool:
        return not self.values

    def draw(self, number: float) -> str:
        """`number`: from 0 to 1. Ranges above zero are log-uniform: 1e-4..1e-2 is as often below 1e-3 as above."""
        if self.values:
            return self.values[min(int(number * len(self.values)), len(self.values) - 1)]
        if self.low > 0:
            value = math.exp(math.log(self.low) + number * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + number * (self.high - self.low)
        return str(round(value)) if self.whole else f"{value:.{DIGITS}g}"


def axes_of(texts: Sequence[str]) -> tuple[Axis, ...]:
    """The values of --over. Raises Misuse."""
    axes: dict[str, Axis] = {}
    for text in texts:
        name, sign, right = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name or not right.strip():
            raise Misuse(
                f"--over cannot be {text!r}: expected NAME=VALUES, as in --over lr=1e-3,3e-3. Nothing was run."
            )
        if name in axes:
            raise Misuse(f"--over varies {name} twice. Nothing was run: put all values into one --over.")
        axes[name] = _range(name, right) if ".." in right else _values(name, right)
    return tuple(axes.values())


def _values(name: str, text: str) -> Axis:
    values = [part.strip() for part in text.split(";" if ";" in text else ",")]
    if not all(values):
        raise Misuse(f"--over {name}={text} has an empty value. Nothing was run.")
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise Misuse(f"--over {name}={text} has {twice[0]} twice. Nothing was run.")
    return Axis(name, tuple(values))


def _range(name: str, text: str) -> Axis:
    low, _, high = (part.strip() for part in text.partition(".."))
    try:
        lowest, highest = float(low), float(high)
    except ValueError:
        raise Misuse(
            f"--over {name}={text} is not a range: expected two numbers, as in --over lr=1e-4..1e-1. Nothing was run."
        ) from None
    if not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
        raise Misuse(f"--over {name}={text} is empty: the first number must be the smaller one. Nothing was run.")
    return Axis(name, low=lowest, high=highest, whole=low.lstrip("-").isdigit() and high.lstrip("-").isdigit())


def grid(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Every combination of values."""
    for axis in axes:
        if axis.is_range:
            raise Misuse(f"--over {axis.name} is a range, which has no grid. Nothing was run: add --random N.")
    return [
        dict(zip([axis.name for axis in axes], values, strict=True)) for values in product(*(a.values for a in axes))
    ]


def random_settings(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, str]]:
    """Different settings, drawn one after another: a larger count adds to those of a smaller one."""
    settings: list[dict[str, str]] = []
    for setting in _draws(axes, seed, DRAWS * count):
        if setting not in settings:
            settings.append(setting)
        if len(settings) == count:
            break
    return settings


def _draws(axes: Sequence[Axis], seed: int, most: int) -> Iterator[dict[str, str]]:
    for index in range(most):
        yield {axis.name: axis.draw(random.Random(f"{seed}/{index}/{axis.name}").random()) for axis in axes}
