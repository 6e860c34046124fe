"""The quantization schemes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    from trueloop.quantize.scheme import Scheme

__all__ = ["SCHEMES", "find_scheme"]

SCHEMES: Final = {
    "int8-dynamic": "int8_dynamic.Int8Dynamic",
    "int8-weight": "weight_only.Int8Weight",
    "int4-weight": "weight_only.Int4Weight",
    "int8-static": "int8_static.Int8Static",
    "qat": "qat.Qat",
    "fp8": "weight_only.Fp8",
}  # Scheme -> its file in this folder, and its class


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
    file, _, kind = SCHEMES[name].partition(".")
    scheme: Scheme = getattr(import_module(f"trueloop.quantize.{file}"), kind)()
    return scheme
