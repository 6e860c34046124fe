"""Which schemes there are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.quantize.scheme import Scheme

__all__ = ["SCHEMES", "scheme_named"]

SCHEMES: Final = {
    "int8-dynamic": "Int8Dynamic",
    "int8-weight": "Int8Weight",
    "int4-weight": "Int4Weight",
    "int8-static": "Int8Static",
    "qat": "Qat",
    "fp8": "Fp8",
}
"""A scheme's file in this folder -> its class there."""


def scheme_named(name: str) -> Scheme:
    """Raises Misuse, also for what this machine cannot do: what it can is told."""
    if name not in SCHEMES:
        raise Misuse(
            f"There is no scheme {name!r}.{did_you_mean(name, SCHEMES)} Nothing was run. There are: {', '.join(SCHEMES)}."
        )
    made = _made(name)
    reason = made.impossible()
    if reason:
        possible = [other for other in SCHEMES if not _made(other).impossible()]
        raise Misuse(f"{name} cannot be made here: {reason}. Nothing was run. This machine can: {', '.join(possible)}.")
    return made


def _made(name: str) -> Scheme:
    made: Scheme = getattr(import_module(f"trueloop.quantize.{name.replace('-', '_')}"), SCHEMES[name])()
    return made
