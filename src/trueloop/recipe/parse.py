"""Texts of the command line as Python values, by the type that is asked for."""

import ast
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from trueloop.recipe.validate import suggestion

__all__ = ["NOTHING", "guess_value", "read_value"]

NOTHING: Final = ("none", "off", "null", "")  # Words for None


def read_value(text: str, kind: Any, field: str) -> Any:
    """The text as a value of that type. Raises ValueError with the rest of a sentence."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if type(None) in inside and text.lower() in NOTHING:
            return None
        if {int, float} <= set(inside):
            number = _number(text, float)
            return int(number) if number == int(number) else number
        typed = [part for part in inside if part is not type(None) and typing.get_origin(part) is not Callable]
        return _first_that_fits(text, typed or [Callable], field)
    if origin is Literal:
        words = {str(value): value for value in inside}
        if text in words:
            return words[text]
        raise ValueError(f".{suggestion(field, text, words)}")
    if kind in (tuple, list):  # of what, is not known
        return kind(guess_value(part) for part in _split(text))
    if origin is list:
        return [read_value(part, inside[0], field) for part in _split(text)]
    if origin is tuple:
        return _several(text, inside, field)
    if origin is Mapping:
        return _entries(text)
    if kind is bool:
        return _truth(text)
    if kind in (int, float):
        return _number(text, kind)
    if kind is str:
        return text
    raise ValueError(": set it in the recipe's file")


def _first_that_fits(text: str, kinds: list[Any], field: str) -> Any:
    *before, last = kinds
    for kind in before:
        with suppress(ValueError):
            return read_value(text, kind, field)
    return read_value(text, last, field)


def _truth(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(": it is true or false")
    return words[text.lower()]


def _number(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = float(text) if kind is float else int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f": it is a {'whole number, as in 10' if kind is int else 'number, as in 3e-4'}") from None
        if not number.is_integer():
            raise ValueError(": it is a whole number, as in 10") from None
        number = int(number)  # 1e4 is how many people write ten thousand
    return number


def _several(text: str, inside: tuple[Any, ...], field: str) -> tuple[Any, ...]:
    parts = _split(text)
    kinds = inside[:1] * len(parts) if inside[1:] == (...,) else inside
    if len(parts) != len(kinds):
        what = "numbers" if set(inside) <= {int, float} else "values"
        raise ValueError(f": it is {len(inside)} {what} with a comma between them, as in 0.9,0.999")
    return tuple(read_value(part, kind, field) for part, kind in zip(parts, kinds, strict=True))


def _split(text: str) -> list[str]:
    plain = text.strip("()[] ")
    return [] if plain.lower() in NOTHING else [part.strip().strip("'\"") for part in plain.split(",") if part.strip()]


def _entries(text: str) -> dict[str, Any]:
    if text.lower() in NOTHING:
        return {}
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign for name, sign, _ in pairs):
        raise ValueError(": it is NAME=VALUE, with commas between several")
    return {name.strip(): guess_value(value) for name, _, value in pairs}


def guess_value(text: str) -> Any:
    """What a value of an open mapping most likely is: torch tells if it is not."""
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None}
    text = text.strip()
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
