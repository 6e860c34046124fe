"""The quantization schemes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.quantize.scheme import Scheme

__all__ = ["SCHEMES", "find_scheme"]

SCHEMES: Final = {
    "int8-dynamic": "Int8Dynamic",
    "int8-weight": "Int8Weight",
    "int4-weight": "Int4Weight",
    "int8-static": "Int8Static",
    "qat": "Qat",
    "fp8": "Fp8",
}  # Scheme, which is also the name of its file in this folder -> its class


def find_scheme(name: str) -> Scheme:
    """Raises Misuse, also for a scheme that this machine does not support."""
    if name not in SCHEMES:
        guess = did_you_mean(name, SCHEMES)
        raise Misuse(f"Unknown scheme {name!r}.{guess} Nothing was run. Schemes: {', '.join(SCHEMES)}.")
    scheme = _load(name)
    reason = scheme.unsupported()
    if reason:
        possible = [other for other in SCHEMES if not _load(other).unsupported()]
        raise Misuse(f"{name} does not work here: {reason}. Nothing was run. Supported: {', '.join(possible)}.")
    return scheme


def _load(name: str) -> Scheme:
    scheme: Scheme = getattr(import_module(f"trueloop.quantize.{name.replace('-', '_')}"), SCHEMES[name])()
    return scheme
